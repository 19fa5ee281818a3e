#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How is the library called from Python?  By ctypes, with nothing else to install."""
import ctypes
import sys

tamis = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libtamis.so.0.1")
tamis.tamis_strerror.restype = ctypes.c_char_p
tamis.tamis_contains.restype = ctypes.c_bool
for call in tamis.tamis_add_unique, tamis.tamis_contains:
    call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]


class Options(ctypes.Structure):
    """The first fields of tamis_options, in its order; `others` is room for the rest."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("kind", ctypes.c_int), ("capacity", ctypes.c_uint64),
                ("fpp", ctypes.c_double), ("growable", ctypes.c_bool), ("others", ctypes.c_uint64 * 32)]


options = Options()
tamis.tamis_options_init(ctypes.byref(options))
options.capacity, options.fpp = 1000000, 1e-6
seen = ctypes.c_void_p()
result = tamis.tamis_create(ctypes.byref(options), ctypes.byref(seen))
if result != 0:
    sys.exit(tamis.tamis_strerror(result).decode())
for word in b"apple", b"pear", b"apple":
    print(word.decode(), "is new" if tamis.tamis_add_unique(seen, word, len(word)) == 0 else "was seen")
tamis.tamis_destroy.argtypes = [ctypes.c_void_p]
tamis.tamis_destroy(seen)
# prints: apple is new
# prints: pear is new
# prints: apple was seen
