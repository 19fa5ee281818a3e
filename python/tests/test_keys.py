# SPDX-License-Identifier: MIT
"""What is a key, and which Python objects are the same one."""
import array
import ctypes
import enum

import pytest
import tamis

numpy = pytest.importorskip("numpy")

KINDS = [tamis.Bloom, tamis.Cuckoo, tamis.CountingBloom]


class Number(enum.IntEnum):
    SEVEN = 7


class Indexed:
    def __index__(self):
        return 7


def eight(number):
    return (number % 2**64).to_bytes(8, "little")


# Objects that are one key.
SAME = [
    ["grün", "grün".encode(), bytearray("grün".encode()), memoryview("grün".encode()), type("S", (str,), {})("grün"),
     numpy.str_("grün"), numpy.bytes_("grün".encode()), array.array("B", "grün".encode())],
    ["", b"", bytearray()],
    [7, Number.SEVEN, Indexed(), eight(7), numpy.int8(7), numpy.uint8(7), numpy.int16(7), numpy.uint16(7),
     numpy.int32(7), numpy.uint32(7), numpy.int64(7), numpy.uint64(7), array.array("q", [7]), numpy.array([7])],
    [-1, 2**64 - 1, eight(-1), numpy.int8(-1), numpy.int64(-1), numpy.uint64(2**64 - 1)],
    [-2**63, 2**63, eight(2**63), numpy.int64(-2**63)],
    [2**63 - 1, eight(2**63 - 1)],
    ["a\0b", b"a\0b"],
    ["\U0010ffff", "\U0010ffff".encode()],
]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_keys_of_several_types(kind):
    for same in SAME:
        for first in same:
            f = kind(1000, 1e-4)
            assert f.add(first)
            for other in same:
                assert other in f and f.hash(other) == f.hash(first)
                assert f.add(other) is False
            assert f.contains_many(same) == [True] * len(same)
            assert f.add_many(same) == [False] * len(same)
            assert f.count(first) == {tamis.Bloom: 1, tamis.Cuckoo: 2 * len(same) + 1}.get(kind, min(2 * len(same) + 1, 15))


def test_different_keys_differ():
    f = tamis.Bloom(1000, 1e-9)
    for i, same in enumerate(SAME):
        assert f.add(same[0])
        assert not any(other[0] in f for other in SAME[i + 1:])


class Raises:
    def __index__(self):
        raise ZeroDivisionError


NO_KEYS = [
    (True, TypeError), (None, TypeError), (1.0, TypeError), (1j, TypeError), ([], TypeError), ({}, TypeError),
    (object(), TypeError), (int, TypeError), (numpy.bool_(True), TypeError), (numpy.float64(1), TypeError),
    (numpy.float32(1), TypeError), (ctypes.c_int(1), TypeError), (2**64, OverflowError), (-2**63 - 1, OverflowError),
    (10**100, OverflowError), ("\ud800", UnicodeEncodeError), ("abc\udfff", UnicodeEncodeError),
    (Raises(), ZeroDivisionError), (numpy.zeros((4, 4), dtype="u1")[:, 1], (ValueError, BufferError)),
    (memoryview(b"abcd")[::2], BufferError),
    # What equal values do not have equal bytes of.
    (numpy.array(["u1", "u2"], dtype=object), TypeError), ((ctypes.c_char_p * 2)(), TypeError),
    (numpy.datetime64("2020-01-01"), TypeError), (numpy.timedelta64(5, "s"), TypeError),
    (numpy.array(["2020-01-01"], "M8[D]"), (TypeError, ValueError)), (numpy.zeros(2, "i1,i8"), TypeError),
    (numpy.zeros(2, "i1,i8")[0], TypeError), (numpy.zeros(2, numpy.longdouble), TypeError), (numpy.ma.masked_array([1, 2], [0, 1]), TypeError), (numpy.ma.masked, TypeError),
]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_key_raises_and_changes_nothing(kind):
    f = kind(1000, 1e-5)
    calls = [f.add, f.add_copy, f.count, f.hash, f.__contains__]
    calls += [f.discard, f.remove, f.add_unique] if kind is not tamis.Bloom else []
    for key, error in NO_KEYS:
        for call in calls:
            with pytest.raises(error):
                call(key)
        for many in [f.add_many, f.contains_many, f.update] + ([f.add_unique_many] if kind is not tamis.Bloom else []):
            with pytest.raises(error):
                many([key])
    assert len(f) == 0 and f.stats().count == 0


def test_a_buffer_is_held_no_longer_than_the_call():
    f, data = tamis.Bloom(100), bytearray(b"abc")
    f.add(data)
    f.add_many([data] * 3000)
    data.extend(b"def")  # BufferError if it were exported still
    assert data not in f


def test_keys_are_those_of_cxx():
    """As <tamis/tamis.hpp> says: (n % 2**64).to_bytes(8, "little")."""
    f = tamis.Cuckoo(1000, 1e-6)
    for number in (0, 1, -1, 255, 256, 2**31, -2**31, 2**63 - 1, -2**63, 2**64 - 1):
        f.add_copy(number)
        assert eight(number) in f
