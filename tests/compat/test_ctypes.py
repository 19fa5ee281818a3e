#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program in another language, which has no macros: the shared library through ctypes.

    test_ctypes.py LIBRARY
"""
import ctypes
import pathlib
import re
import sys
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint, c_uint64, c_void_p


HEADER = (pathlib.Path(__file__).parents[2] / "include/tamis/tamis.h").read_text()
TYPES = {"size_t": c_size_t, "uint64_t": c_uint64, "double": c_double, "bool": c_bool, "unsigned": c_uint,
         "tamis_kind": c_int, "tamis_layout": c_int}  # all others are pointers


def fields(struct):
    body = re.search(rf"^typedef struct {struct} {{$(.*?)^}} {struct};$", HEADER, re.M | re.S)[1]
    return [(name, TYPES.get(kind, c_void_p)) for kind, name in re.findall(r"^  (?:const )?(\w+) \*?(\w+); *(?:/\*.*\*/)?$", body, re.M)]


class Options(ctypes.Structure):
    _fields_ = fields("tamis_options")


class Stats(ctypes.Structure):
    _fields_ = fields("tamis_stats")


class Guarded(ctypes.Structure):
    """A struct, and bytes behind it that nothing may change."""
    _fields_ = [("options", Options), ("after_options", c_uint64 * 8),
                ("stats", Stats), ("after_stats", c_uint64 * 8)]


def check(condition, what):
    if not condition:
        sys.exit(f"BAD: {what}")


def main(path):
    tamis = ctypes.CDLL(path)
    tamis.tamis_options_init.argtypes, tamis.tamis_options_init.restype = [POINTER(Options)], None
    tamis.tamis_stats_init.argtypes, tamis.tamis_stats_init.restype = [POINTER(Stats)], None
    tamis.tamis_options_check.argtypes = [POINTER(Options), c_char_p, c_size_t]
    tamis.tamis_create.argtypes = [POINTER(Options), POINTER(c_void_p)]
    tamis.tamis_add_unique.argtypes = [c_void_p, c_char_p, c_size_t]
    tamis.tamis_contains.argtypes, tamis.tamis_contains.restype = [c_void_p, c_char_p, c_size_t], c_bool
    tamis.tamis_get_stats.argtypes = [c_void_p, POINTER(Stats)]
    tamis.tamis_advance.argtypes = [c_void_p]
    tamis.tamis_destroy.argtypes, tamis.tamis_destroy.restype = [c_void_p], None

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
