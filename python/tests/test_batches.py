# SPDX-License-Identifier: MIT
"""Many keys at once: each source of keys answers as single calls do."""
import array
import collections
import ctypes
import functools
import hashlib
import operator
import signal

import pytest
import tamis

numpy = pytest.importorskip("numpy")

TEXTS = ["", "a", "grün", "\U0001f600", "x" * 300, "a\0b"] + [f"key {i}" for i in range(5000)]
NUMBERS = [0, 1, -1, 127, -128, 2**31 - 1, -2**31, 2**63 - 1, -2**63] + list(range(1000, 6000))


def expected(keys):
    """What single adds say, on an exact set."""
    seen, answers = set(), []
    for key in keys:
        key = key.encode() if isinstance(key, str) else key
        answers.append(key not in seen)
        seen.add(key)
    return answers


def sources_of(keys):
    yield list(keys)
    yield tuple(keys)
    yield iter(keys)
    yield (key for key in keys)
    yield collections.deque(keys)
    yield dict.fromkeys(keys)
    yield numpy.array(keys, dtype=object)


@pytest.mark.parametrize("kind", [tamis.Bloom, tamis.Cuckoo, tamis.CountingBloom])
@pytest.mark.parametrize("keys", [TEXTS, NUMBERS, [key.encode() for key in TEXTS]])
def test_all_sources_agree(kind, keys):
    capacity, fpp = 20000, 1e-5 if kind is tamis.CountingBloom else 1e-7
    for source in sources_of(keys):
        f = kind(capacity, fpp, seed=1)
        added = f.add_many(source)
        assert list(added) == [True] * len(keys)
        assert all(key in f for key in keys)
    twice = keys + keys[::-1]
    assert kind(capacity, fpp, seed=1).add_many(twice) == expected(twice)
    f = kind(capacity, fpp, seed=1)
    assert f.update(keys[:10], iter(keys[10:20])) is None
    assert f.contains_many(keys)[:21] == [True] * 20 + [False] and f.contains_many([]) == []


def test_numpy_integers():
    for dtype in "i1 u1 i2 u2 i4 u4 i8 u8 >i4 >i8 >u8 bool".split():
        f, g = tamis.Bloom(10000, 1e-9), tamis.Bloom(10000, 1e-9)
        if dtype == "bool":
            with pytest.raises(TypeError):
                f.add_many(numpy.zeros(3, dtype))
            continue
        info = numpy.iinfo(dtype)
        values = sorted({info.min, info.max, 0, 1, info.max // 3, *range(5, 100)})
        keys = numpy.array(values, dtype=dtype)
        added = f.add_many(keys)
        assert isinstance(added, numpy.ndarray) and added.dtype == bool and added.all()
        assert f.contains_many(values) == [True] * len(values)
        assert all(value in f for value in values)
        assert all(g.add(value) for value in values) and g.contains_many(keys).all()
        added[0] = False  # it is the caller's own


def test_numpy_text():
    words = ["", "a", "grün", "\U0001f600", "longest of them"] + [f"w{i}" for i in range(600)]
    unicode, data = numpy.array(words), numpy.array([w.encode() for w in words])
    for keys in unicode, data:
        f = tamis.Bloom(10000, 1e-9)
        assert f.add_many(keys).all() and all(f.contains_many(words)) and not f.add_many(unicode).any()
    broad = numpy.array(["x" * 40000, "é" * 40000])
    f = tamis.Bloom(100, 1e-9)
    f.update(broad)
    assert "x" * 40000 in f and "é" * 40000 in f
    # As numpy has it, zeros at the end are no part of the element.
    f = tamis.Bloom(100, 1e-9)
    f.update(numpy.array([b"a\0b\0\0"]), numpy.array(["c\0d\0"]))
    assert b"a\0b" in f and "c\0d" in f
    characters = array.array("u", "a\0")  # where a zero is an element
    assert all(f.add_many(characters)) and all(f.contains_many(list(characters)))
    spoilt = numpy.array(["ab", "cd"])
    spoilt.view("u4")[2] = 0xD800
    with pytest.raises(ValueError, match="element 1"):
        f.add_many(spoilt)
    for array_of_objects in numpy.array(["ab", None], dtype=object), spoilt.astype(">U2"):
        with pytest.raises((TypeError, UnicodeEncodeError)) as raised:
            f.add_many(array_of_objects)
        assert raised.value.results == []
    assert "ab" not in f


def test_numpy_views():
    whole = numpy.arange(4000, dtype="i8")
    f = tamis.Bloom(10000, 1e-9)
    f.update(whole[1::2])
    assert (f.contains_many(whole) == (whole % 2 == 1)).all()
    assert (f.contains_many(whole[::-1]) == (whole % 2 == 1)[::-1]).all()
    table = numpy.zeros((4, 3), dtype="i8")
    for bad in table, table.view("u1")[:, ::2], table.view("u1").reshape(2, 2, 24):
        with pytest.raises(ValueError, match="dimension|next to each other"):
            f.add_many(bad)
    assert list(f.contains_many(table[:, 0])) == [False] * 4
    assert f.contains_many(numpy.array([], dtype="i8")).shape == (0,)
    fields = numpy.zeros(3, dtype=[("a", "i4"), ("b", "i8")])
    fields["b"] = [1, 2, 3]
    assert list(f.contains_many(fields["b"])) == [True, False, True]
    masked = numpy.ma.masked_array(whole, whole % 2)
    for bad in fields, numpy.zeros(3), numpy.array(5), numpy.zeros(3, "c16"), masked, whole.astype("M8[s]"):
        with pytest.raises((TypeError, ValueError)):
            f.add_many(bad)
    readonly = whole.copy()
    readonly.setflags(write=False)
    assert f.contains_many(readonly).sum() == 2000


def test_digests():
    """numpy's S takes zeros off the end; V and rows of bytes have all."""
    digests = [hashlib.md5(str(i).encode()).digest() for i in range(2000)] + [bytes(16), b"x" + bytes(15)]
    rows = numpy.frombuffer(b"".join(digests), "u1").reshape(-1, 16)
    wide = numpy.zeros((len(digests), 20), "u1")
    wide[:, 2:18] = rows
    for keys in rows, numpy.array(digests, "V16"), wide[:, 2:18], rows[::-1][::-1], numpy.array(digests, "V16")[::2][::1]:
        f = tamis.Bloom(10000, 1e-9, seed=1)
        assert f.add_many(keys).all() and all(f.contains_many(digests[::len(digests) // len(keys)]))
    assert numpy.void(digests[0]) in f and f.contains_many(rows[::2]).all() and rows[0] in f
    assert f.contains_many(numpy.array(digests[:10:2], "S16")).all() and f.add(b"x")
    assert list(f.contains_many(rows[:5, :0])) == [False] * 5 and f.contains_many(rows[:0]).shape == (0,)


def test_other_buffers():
    f = tamis.Bloom(10000, 1e-9)
    assert f.add_many(array.array("q", [1, -1])) == [True, True] and 1 in f and -1 in f
    assert f.add_many(array.array("H", [1, 7])) == [False, True]
    assert f.add_many(memoryview(array.array("l", [8, 9]))) == [True, True]
    assert f.add_many(memoryview(array.array("l", range(20)))[10::3]) == [True] * 4


def test_a_single_key_is_no_batch():
    f = tamis.Bloom(100)
    for call in f.update, f.add_many, f.contains_many:
        for keys in "abc", b"abc", bytearray(b"abc"), memoryview(b"abc"), 5, 1.5, None, len, int:
            with pytest.raises(TypeError):
                call(keys)
    assert len(f) == 0


@pytest.mark.parametrize("n", [0, 1, 100, 2047, 2048, 2049, 5000])
def test_an_exception_of_the_source_passes_through(n):
    def source():
        yield from range(n)
        raise ZeroDivisionError("mine")

    for call in "update", "add_many":
        f = tamis.Bloom(10000, 1e-9)
        with pytest.raises(ZeroDivisionError, match="mine"):
            getattr(f, call)(source())
        assert f.stats().count == n and all(f.contains_many(range(n)))
    with pytest.raises(ZeroDivisionError):
        f.contains_many(source())


@pytest.mark.parametrize("make", [list, tuple, iter])
@pytest.mark.parametrize("at", [0, 5, 2050])
def test_what_is_no_key_ends_a_batch(make, at):
    keys = list(range(at)) + [1.5] + ["later"]
    f = tamis.Bloom(10000, 1e-9)
    with pytest.raises(TypeError) as raised:
        f.add_many(make(keys))
    assert raised.value.results == [True] * at
    assert all(f.contains_many(range(at))) and "later" not in f


def test_refused_keys():
    for source in list, iter, numpy.array:
        f = tamis.Bloom(100, 1e-9, growable=False)
        with pytest.raises(tamis.FullError) as raised:
            f.add_many(source(range(5000)))
        results = raised.value.results
        assert results[:100] == [True] * 100 and results[100:] == [None] * (len(results) - 100)
    # A full part comes before what the iterator raises behind it.
    f = tamis.Bloom(10, growable=False)
    with pytest.raises(tamis.FullError):
        f.update(i + 0 // (50 - i) for i in range(100))


def test_an_exception_keeps_results_of_its_own():
    def source():
        yield "a"
        error = ValueError()
        error.results = "the source's"
        raise error

    with pytest.raises(ValueError) as raised:
        tamis.Bloom(100).add_many(source())
    assert raised.value.results == "the source's"


class Rings:
    """A key that sends this process a signal, in C: only a look for signals finds it."""
    __index__ = functools.partial(ctypes.CDLL(None)["raise"], signal.SIGALRM)


@pytest.fixture
def interrupted():
    """SIGALRM does what Ctrl-C does."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield pytest.raises(KeyboardInterrupt)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("source", [list, tuple, iter, lambda keys: map(operator.index, keys[3000:])])
@pytest.mark.parametrize("call", ["update", "add_many", "contains_many", "contains_each_many"])
def test_signals_end_a_batch(interrupted, source, call):
    f, keys = tamis.Bloom(10000, 1e-9, seed=1), source([f"key {i}" for i in range(3000)] + [Rings(), *range(1, 10000)])
    with interrupted as raised:
        tamis.contains_each_many([f, None], keys) if call == "contains_each_many" else getattr(f, call)(keys)
    if call == "add_many":  # what is in, its answers tell
        results = raised.value.results
        assert results[:2000] == [True] * 2000 and results.count(True) == len(f) and len(results) < 8000
    assert list(keys)[-1:] == [9999], "an iterator is not read to its end"


@pytest.mark.parametrize("key", [numpy.int64(5), numpy.str_("a"), numpy.void(b"abc")])
def test_signals_end_the_batch_of_an_array(interrupted, key):
    keys = numpy.lib.stride_tricks.as_strided(numpy.array([key]), (10**11,), (0,))  # which takes an hour
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with interrupted:
        tamis.Bloom(1000).update(keys)


def test_a_list_that_changes_meanwhile():
    f, keys = tamis.Bloom(100000, 1e-9), list(range(10000))

    class Clears:
        def __index__(self):
            keys.clear()
            return 77

    keys[5000] = Clears()
    assert f.add_many(keys) == [True] * 5000 + [False]
    assert 77 in f and 4999 in f and 5002 not in f


class Recursive:
    """A buffer of ctypes would do as well: code of the program's that runs in the midst of a batch."""

    def __init__(self, f):
        self.f = f

    def __index__(self):
        self.f.update(["inner"])
        return 5


def test_a_batch_within_a_batch():
    f = tamis.Cuckoo(1000, 1e-6)
    f.update([1, Recursive(f), 2])
    assert "inner" in f and 2 in f and 5 in f
