# SPDX-License-Identifier: MIT
"""Arrow arrays, by Arrow's C data interface.

Debian has no pyarrow, so the arrays are made here, as the specification of the interface lays them out.  Where
pyarrow is there, its own arrays are tried as well.
"""
import ctypes
import struct
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, py_object

import pytest
import tamis


class Schema(Structure):
    pass


class Array(Structure):
    pass


class Stream(Structure):
    pass


RELEASE_SCHEMA, RELEASE_ARRAY = CFUNCTYPE(None, POINTER(Schema)), CFUNCTYPE(None, POINTER(Array))
Schema._fields_ = [("format", c_char_p), ("name", c_char_p), ("metadata", c_char_p), ("flags", c_int64),
                   ("n_children", c_int64), ("children", c_void_p), ("dictionary", c_void_p),
                   ("release", RELEASE_SCHEMA), ("private_data", c_void_p)]
Array._fields_ = [("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64),
                  ("n_children", c_int64), ("buffers", POINTER(c_void_p)), ("children", c_void_p),
                  ("dictionary", c_void_p), ("release", RELEASE_ARRAY), ("private_data", c_void_p)]
GET_SCHEMA = CFUNCTYPE(c_int, POINTER(Stream), POINTER(Schema))
GET_NEXT = CFUNCTYPE(c_int, POINTER(Stream), POINTER(Array))
LAST_ERROR, RELEASE_STREAM = CFUNCTYPE(c_void_p, POINTER(Stream)), CFUNCTYPE(None, POINTER(Stream))
Stream._fields_ = [("get_schema", GET_SCHEMA), ("get_next", GET_NEXT), ("get_last_error", LAST_ERROR),
                   ("release", RELEASE_STREAM), ("private_data", c_void_p)]

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = py_object, [c_void_p, c_char_p, c_void_p]


class Made:
    """One array; what it owns lives as long as this object."""

    def __init__(self, format, buffers, length, offset=0, nulls=0):
        self.released = []
        self.kept = [ctypes.create_string_buffer(data, len(data) + 8) if data is not None else None for data in buffers]
        self.pointers = (c_void_p * len(buffers))(*(ctypes.addressof(one) if one else None for one in self.kept))
        self.release_schema = RELEASE_SCHEMA(lambda _: self.released.append("schema"))
        self.release_array = RELEASE_ARRAY(lambda _: self.released.append("array"))
        self.format, self.length, self.offset, self.nulls = format.encode(), length, offset, nulls
        self.schema, self.array = Schema(), Array()
        self.fill_schema(self.schema), self.fill_array(self.array)

    def fill_schema(self, to):
        to.format, to.release = self.format, self.release_schema

    def fill_array(self, to):
        to.length, to.null_count, to.offset = self.length, self.nulls, self.offset
        to.n_buffers, to.buffers = len(self.kept), ctypes.cast(self.pointers, POINTER(c_void_p))
        to.release = self.release_array

    def __arrow_c_array__(self, requested_schema=None):
        return (new_capsule(ctypes.addressof(self.schema), b"arrow_schema", None),
                new_capsule(ctypes.addressof(self.array), b"arrow_array", None))


class Chunks:
    def __init__(self, *chunks, fails=0):
        self.chunks, self.next, self.released = chunks, 0, []
        self.why = ctypes.create_string_buffer(b"out of luck")

        def get_schema(_, out):
            chunks[0].fill_schema(out[0])
            return 0

        def get_next(_, out):
            if self.next == len(chunks):
                out[0].release = RELEASE_ARRAY()
                return fails
            chunks[self.next].fill_array(out[0])
            self.next += 1
            return 0

        self.stream = Stream(GET_SCHEMA(get_schema), GET_NEXT(get_next), LAST_ERROR(lambda _: ctypes.addressof(self.why)),
                             RELEASE_STREAM(lambda _: self.released.append("stream")))

    def __arrow_c_stream__(self, requested_schema=None):
        return new_capsule(ctypes.addressof(self.stream), b"arrow_array_stream", None)


def texts(words, form="u", **options):
    size = "i" if form in "uz" else "q"
    data, offsets = b"", [0]
    for word in words:
        data += word.encode() if isinstance(word, str) else word
        offsets.append(len(data))
    return Made(form, [None, struct.pack(f"{len(offsets)}{size}", *offsets), data], len(words) - options.get("offset", 0),
                **options)


def views(words, form="vu"):
    block, rows = b"", b""
    for word in map(str.encode, words):
        if len(word) <= 12:
            rows += struct.pack("<i12s", len(word), word)
        else:
            rows += struct.pack("<i4sii", len(word), word[:4], 0, len(block))
            block += word
    return Made(form, [None, rows, block, struct.pack("<q", len(block))], len(words))


WORDS = ["", "a", "grün", "longer than twelve bytes", "exactly 12 b"] + [f"word {i}" for i in range(1000)]


@pytest.mark.parametrize("make", [texts, lambda w: texts(w, "U"), lambda w: texts([x.encode() for x in w], "z"),
                                  lambda w: texts(w, "Z"), views, lambda w: views(w, "vz"), lambda w: Chunks(texts(w)),
                                  lambda w: Chunks(texts(w[:7]), texts(w[7:]))])
def test_text_and_binary(make):
    f, g = tamis.Bloom(10000, 1e-9), tamis.Bloom(10000, 1e-9)
    made = make(WORDS)
    assert f.add_many(made) == [True] * len(WORDS)
    assert all(f.contains_many(WORDS)) and g.update(make(WORDS)) is None and all(g.contains_many(WORDS))


def test_integers():
    for form, code, values in [("c", "b", [-128, -1, 5]), ("C", "B", [0, 255]), ("s", "h", [-2**15, 7]),
                               ("S", "H", [2**16 - 1]), ("i", "i", [-2**31, 3]), ("I", "I", [2**32 - 1]),
                               ("l", "q", [-2**63, 2**63 - 1]), ("L", "Q", [2**64 - 1, 0])]:
        f = tamis.Bloom(100, 1e-9)
        f.update(Made(form, [None, struct.pack(f"{len(values)}{code}", *values)], len(values)))
        assert all(value in f for value in values), form
    f = tamis.Bloom(100, 1e-9)
    f.update(Made("w:3", [None, b"abcdef\0\0\0"], 3))
    assert f.contains_many([b"abc", b"def", b"\0\0\0", b""]) == [True, True, True, False]


def test_offsets_and_nulls():
    f = tamis.Bloom(100, 1e-9)
    assert f.add_many(texts(["a", "b", "c"], offset=1)) == [True, True] and "a" not in f
    made = Made("l", [b"\x05", struct.pack("3q", 7, 8, 9)], 3, nulls=1)  # the second one is null
    with pytest.raises(TypeError, match="element 1 is null"):
        f.add_many(made)
    assert 7 not in f
    made = Made("l", [b"\x06", struct.pack("3q", 7, 8, 9)], 2, offset=1, nulls=-1)
    assert f.add_many(made) == [True, True] and 7 not in f


def test_what_is_no_array_of_keys():
    f = tamis.Bloom(100, 1e-9)
    wrong = [(Made("g", [None, b"x" * 8], 1), TypeError), (Made("n", [], 3), TypeError), (Made("+s", [None], 1), TypeError),
             (Made("u", [None, b"x" * 8], 1), ValueError), (Made("l", [None, None], 1), ValueError),
             (Made("l", [None, b""], -1), ValueError),
             (Made("u", [None, struct.pack("3i", 0, 5, 2), b"abcde"], 2), ValueError),
             (Made("u", [None, struct.pack("2i", -3, 2), b"abcde"], 1), ValueError),
             (Made("vu", [None, struct.pack("<i4sii", 20, b"abcd", 3, 0), b"x" * 20, b"\0" * 8], 1), ValueError),
             (Made("vu", [None, struct.pack("<i4sii", -1, b"abcd", 0, 0), b"x" * 20, b"\0" * 8], 1), ValueError)]
    for made, error in wrong:
        with pytest.raises(error):
            f.add_many(made)
    with pytest.raises(OSError, match="out of luck"):
        f.update(Chunks(texts(["a"]), fails=5))
    assert "a" in f
    for nonsense in None, 5, (), (1, 2), b"x":
        one = type("One", (), {"__arrow_c_array__": lambda self: nonsense, "__arrow_c_stream__": lambda self: nonsense})
        other = type("Other", (), {"__arrow_c_stream__": lambda self: nonsense})
        for made in one(), other():
            with pytest.raises((TypeError, ValueError)):
                f.update(made)


def test_arrays_of_a_stream_are_released():
    first, second = texts(["a"]), texts(["b"])
    made = Chunks(first, second)
    tamis.Bloom(100).update(made)
    assert "array" in first.released and "array" in second.released and "schema" in first.released


def test_pyarrow():
    pyarrow = pytest.importorskip("pyarrow", minversion="14")
    f = tamis.Bloom(10000, 1e-9)
    assert all(f.add_many(pyarrow.array(WORDS))) and all(f.contains_many(WORDS))
    assert all(f.contains_many(pyarrow.chunked_array([WORDS[:5], WORDS[5:]])))
    assert all(f.add_many(pyarrow.array(range(100)))) and 99 in f
    with pytest.raises(TypeError):
        f.update(pyarrow.array(["x", None]))
