#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How is the library called from Python?  By ctypes, with nothing else to install.

Threads share a filter.  Processes do not: a child that is forked (os.fork, multiprocessing) has its own copy of
each filter that its parent had, and adds only to this copy."""
import ctypes
import os
import sys

tamis = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libtamis.so.0.9")
tamis.tamis_strerror.restype = ctypes.c_char_p
tamis.tamis_contains.restype = ctypes.c_bool
for call in tamis.tamis_add_unique, tamis.tamis_contains:
    call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
tamis.tamis_destroy.argtypes = [ctypes.c_void_p]


class Options(ctypes.Structure):
    """tamis_options up to `window`; `others` has room for the fields after it, which tamis_options_init sets."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("kind", ctypes.c_int), ("capacity", ctypes.c_uint64),
                ("fpp", ctypes.c_double), ("growable", ctypes.c_bool), ("max_bytes", ctypes.c_uint64),
                ("seed", ctypes.c_uint64), ("layout", ctypes.c_int), ("stripes", ctypes.c_uint),
                ("pointers", ctypes.c_void_p * 3), ("window", ctypes.c_uint), ("others", ctypes.c_uint64 * 32)]


def made(call, *arguments):
    """The filter that a call writes to its last argument."""
    out = ctypes.c_void_p()
    result = call(*arguments, ctypes.byref(out))
    if result != 0:
        raise OSError(tamis.tamis_strerror(result).decode())
    return out


options = Options()
tamis.tamis_options_init(ctypes.byref(options))
options.capacity, options.fpp = 1000000, 1e-6
seen = made(tamis.tamis_create, ctypes.byref(options))
# An integer is a key as 8 bytes, lowest first: the same key as in C++.
for key in b"apple", b"pear", b"apple", (7).to_bytes(8, "little"):
    print(key, "is new" if tamis.tamis_add_unique(seen, key, len(key)) == 0 else "was seen", flush=True)

if tamis.tamis_save_file(seen, b"seen.tamis") != 0:
    sys.exit("it is not saved")
again = made(tamis.tamis_load_file, None, b"seen.tamis")
print("pear was saved:", tamis.tamis_contains(again, b"pear", 4), flush=True)

if os.fork() == 0:
    tamis.tamis_add_unique(seen, b"fig", 3)
    os._exit(0)
os.wait()
print("the parent has what its child has added:", tamis.tamis_contains(seen, b"fig", 3))
tamis.tamis_destroy(seen)
tamis.tamis_destroy(again)
# prints: b'apple' is new
# prints: b'pear' is new
# prints: b'apple' was seen
# prints: b'\x07\x00\x00\x00\x00\x00\x00\x00' is new
# prints: pear was saved: True
# prints: the parent has what its child has added: False
