# SPDX-License-Identifier: MIT
"""The shared library through ctypes, as its header declares it: structs, and the results and parameters of its calls."""
import ctypes
import pathlib
import re
import sys
from ctypes import POINTER, byref, c_bool, c_double, c_int, c_size_t, c_uint, c_uint64, c_void_p

HEADER = (pathlib.Path(__file__).parents[2] / "include/tamis/tamis.h").read_text()
TYPES = {"size_t": c_size_t, "uint64_t": c_uint64, "double": c_double, "bool": c_bool, "unsigned": c_uint, "int": c_int,
         "tamis_kind": c_int, "tamis_layout": c_int, "tamis_text_format": c_int}  # all others are pointers
WRITE = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(ctypes.c_ubyte), c_size_t)


def check(condition, what):
    if not condition:
        sys.exit(f"BAD: {what}")


def fields(struct):
    body = re.search(rf"^typedef struct {struct} {{$(.*?)^}} {struct};$", HEADER, re.M | re.S)[1]
    return [(name, TYPES.get(kind, c_void_p)) for kind, name in re.findall(r"^  (?:const )?(\w+) \*?(\w+); *(?:/\*.*\*/)?$", body, re.M)]


class Options(ctypes.Structure):
    _fields_ = fields("tamis_options")


class Stats(ctypes.Structure):
    _fields_ = fields("tamis_stats")


def load(path):
    tamis = ctypes.CDLL(path)
    for result, name, parameters in re.findall(r"^TAMIS_API ([\w ]+[ *])(tamis_\w+)\(([^()]*)\);", HEADER, re.M):
        call = getattr(tamis, name)
        call.restype = None if result == "void " else TYPES.get(result.strip(), c_void_p)
        parts = parameters.split(",") if parameters != "void" else []
        call.argtypes = [c_void_p if "*" in part else TYPES.get(part.split()[0], c_void_p) for part in parts]
    return tamis


def options(tamis, **values):
    """The defaults, but for these fields."""
    made = Options()
    tamis.tamis_options_init(byref(made))
    for name, value in values.items():
        setattr(made, name, value)
    return made


def create(tamis, **values):
    filter_ = c_void_p()
    check(tamis.tamis_create(byref(options(tamis, **values)), byref(filter_)) == 0, f"create {values}")
    return filter_


def share(tamis, path, **values):
    """One that processes share, in a file, or in memory if there is no path.  Without options, the file is there."""
    filter_, made = c_void_p(), values and byref(options(tamis, **values)) or None
    check(tamis.tamis_open_shared(made, path and str(path).encode(), byref(filter_)) == 0, f"share {path} {values}")
    return filter_


def load_file(tamis, path):
    filter_ = c_void_p()
    check(tamis.tamis_load_file(None, str(path).encode(), byref(filter_)) == 0, f"{path}: load")
    return filter_


def save(tamis, filter_):
    data = bytearray()

    def write(_, bytes_, size):
        data.extend(ctypes.string_at(bytes_, size))
        return 0

    check(tamis.tamis_save(filter_, WRITE(write), None) == 0, "save")
    return bytes(data)
