#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program in another language, which has no macros: the shared library through ctypes.

    test_ctypes.py LIBRARY
"""
import ctypes
import sys
from ctypes import byref, c_uint64, c_void_p

from library import Options, Stats, check, load


class Guarded(ctypes.Structure):
    """A struct, and bytes behind it that nothing may change."""
    _fields_ = [("options", Options), ("after_options", c_uint64 * 8),
                ("stats", Stats), ("after_stats", c_uint64 * 8)]


def main(path):
    tamis = load(path)
    room = Guarded()
    ctypes.memset(byref(room), 0xA5, ctypes.sizeof(room))
    options, stats = room.options, room.stats
    tamis.tamis_options_init(byref(options))
    tamis.tamis_stats_init(byref(stats))
    check(options.struct_size == ctypes.sizeof(Options), "struct_size of options")
    check(stats.struct_size == ctypes.sizeof(Stats), "struct_size of stats")
    check((options.kind, options.fpp, options.growable) == (1, 0.01, True), "the defaults")
    check(set(room.after_options) | set(room.after_stats) == {0xA5A5A5A5A5A5A5A5}, "the bytes behind")

    why = ctypes.create_string_buffer(200)
    filter_ = c_void_p()
    check(tamis.tamis_options_check(byref(options), why, 200) == -1, "no capacity")
    check(why.value.startswith(b"capacity is 0; "), f"the reason: {why.value}")
    check(tamis.tamis_create(byref(options), byref(filter_)) == -1 and not filter_, "created all the same")

    for kind in 1, 2:
        options.kind, options.capacity, options.fpp = kind, 1000, 1e-6
        check(tamis.tamis_options_check(byref(options), why, 200) == 0 and why.value == b"", why.value)
        check(tamis.tamis_create(byref(options), byref(filter_)) == 0, "create")
        check(tamis.tamis_add_unique(filter_, b"key", 3) == 0, "add_unique")
        check(tamis.tamis_add_unique(filter_, b"key", 3) == 1, "add_unique again")
        check(tamis.tamis_contains(filter_, b"key", 3), "contains")
        check(tamis.tamis_get_stats(filter_, byref(stats)) == 0, "get_stats")
        check((stats.count, stats.capacity, stats.kind) == (1, 1000, kind), "the figures")
        tamis.tamis_destroy(filter_)

    options.window = 1
    check(tamis.tamis_create(byref(options), byref(filter_)) == 0, "create a window")
    check(tamis.tamis_add_unique(filter_, b"key", 3) == 0, "add_unique to a window")
    for remembered in True, False:
        check(tamis.tamis_advance(filter_) == 0, "advance")
        check(tamis.tamis_contains(filter_, b"key", 3) == remembered, f"remembered: {remembered}")
    tamis.tamis_destroy(filter_)
    print("good")


if __name__ == "__main__":
    main(*sys.argv[1:])
