# SPDX-License-Identifier: MIT
"""Which of many filters may hold a key: the answers are those of each filter."""
import threading

import pytest
import tamis
from together import run

KEYS = ["a key", b"bytes", 7, -1, "", "absent", 2**64 - 1]


def make(n):
    """Filters of all kinds, and None; each filter has some of the keys."""
    filters = []
    for i in range(n):
        kind = [tamis.Bloom, tamis.Cuckoo, tamis.CountingBloom, None][i % 4 if n < 100 else 0]
        filters.append(None if kind is None else kind(1000, 1e-5, seed=1 + i // 50))
        if kind is not None:
            filters[i].update(key for k, key in enumerate(KEYS[:5]) if (k + i) % 3)
    return filters


def expected(filters, key):
    return [f is not None and key in f for f in filters]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 40, 300])
def test_one_key(n):
    filters = make(n)
    for key in KEYS:
        assert tamis.contains_each(filters, key) == expected(filters, key)
        assert tamis.contains_each(iter(filters), key) == expected(filters, key)


@pytest.mark.parametrize("n", [0, 1, 9, 300])
def test_many_keys(n):
    filters = make(n)
    for keys in KEYS, KEYS[:1], [], tuple(KEYS), iter(KEYS * 500):
        keys = keys if isinstance(keys, (list, tuple)) else list(keys)
        assert tamis.contains_each_many(filters, keys) == [expected(filters, key) for key in keys]
        assert tamis.contains_each_many(filters, iter(keys)) == [expected(filters, key) for key in keys]


@pytest.mark.parametrize("n", [0, 3, 300])
def test_numpy(n):
    numpy = pytest.importorskip("numpy")
    filters = make(n)
    for count in 0, 1, 4000:
        keys = numpy.arange(-1, count - 1)
        found = tamis.contains_each_many(filters, keys)
        assert found.shape == (count, n) and found.dtype == bool
        assert found.tolist() == [expected(filters, int(key)) for key in keys]


def test_mistakes():
    filters = make(9)
    for wrong in filters + [3], ["text"], [object()], 5, filters[0]:
        with pytest.raises(TypeError):
            tamis.contains_each(wrong, "a key")
        with pytest.raises(TypeError):
            tamis.contains_each_many(wrong, ["a key"])
    for key in 1.5, None, True, [1]:
        with pytest.raises(TypeError):
            tamis.contains_each(filters, key)
        with pytest.raises(TypeError):
            tamis.contains_each_many(filters, [key])
    for keys in "a key", b"bytes", 5:
        with pytest.raises(TypeError):
            tamis.contains_each_many(filters, keys)
    with pytest.raises(OverflowError):
        tamis.contains_each(filters, 2**64)
    with pytest.raises(TypeError):
        tamis.contains_each(filters)


def test_filters_that_change_meanwhile():
    """A thread empties the list of filters, and adds; the call has references of its own."""
    filters = [tamis.Cuckoo(10, 0.01, seed=3) for _ in range(300)]
    for f in filters:
        f.add("a key")
    ended = threading.Event()

    def change():
        number = 0
        while not ended.is_set():
            for f in filters[:]:
                f.add(number)
            number += 1
            filters.append(filters.pop(0))

    def ask():
        try:
            for _ in range(200):
                assert all(tamis.contains_each(filters, "a key"))
                assert all(map(all, tamis.contains_each_many(filters, ["a key"] * 3)))
        finally:
            ended.set()

    run(change, ask)
