#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls the package at random, with arguments of random types.

    fuzz.py [--calls N] [--seed N]

No call may end the interpreter, raise SystemError, or raise what the documentation does not know.  An exact set
beside each filter finds false negatives.  It is meant to run under AddressSanitizer, which sees the rest.
"""
import argparse
import array
import ctypes
import io
import os
import pathlib
import pickle
import random
import sys
import tempfile
import threading

import tamis

try:
    import numpy
except ImportError:
    numpy = None

EXPECTED = (TypeError, ValueError, OverflowError, KeyError, OSError, MemoryError, tamis.Error, AttributeError,
            pickle.PicklingError, ZeroDivisionError, BufferError, RecursionError, StopIteration, RuntimeError)


class Odd:
    """Special methods that raise, or return nonsense."""

    def __init__(self, random):
        self.value = random.choice([None, 5, "x", -1, 2**70, 1.5, b"x", []])
        self.raises = random.random() < 0.4

    def _answer(self, *_):
        if self.raises:
            raise ZeroDivisionError
        return self.value

    __index__ = __int__ = __float__ = __len__ = __iter__ = __fspath__ = __hash__ = __arrow_c_array__ = _answer
    __next__ = __getitem__ = __arrow_c_stream__ = __bytes__ = __buffer__ = _answer


class OddText(str):
    def __hash__(self):
        raise ZeroDivisionError


def text(random):
    alphabet = random.choice(["ab", "aé€\U0001f600\0", "\ud800x"])
    return "".join(random.choices(alphabet, k=random.choice([0, 1, 3, 20, 300])))


def key(random):
    make = random.choice([
        lambda: random.randrange(100), lambda: random.randrange(-2**63, 2**64), lambda: f"key {random.randrange(1000)}",
        lambda: text(random), lambda: random.randbytes(random.choice([0, 1, 8, 100])), lambda: b"key 1"])
    return make()


def arrays(random):
    n = random.choice([0, 1, 5, 300, 3000])
    yield array.array(random.choice("bBhHiIlLqQfd"), [random.randrange(100) for _ in range(n)])
    yield memoryview(array.array("q", range(n)))[::random.choice([1, 2, -1])]
    yield (ctypes.c_int * n)(*range(n))
    yield ctypes.c_double(1)
    if numpy:
        dtype = random.choice("i1 u2 i4 u8 i8 >i4 f4 f8 c8 bool S1 S7 U1 U5 V3 M8[s] O i4,i8".split())
        made = numpy.zeros(n, dtype=dtype)
        if dtype[0] in "iu>" and "," not in dtype:
            made = numpy.arange(n).astype(dtype)
        elif dtype[0] in "SU":
            made = numpy.array([str(i) for i in range(n)], dtype=dtype)
        yield random.choice([made, made[::2], made[::-1], made.reshape(1, -1), made.astype(object)])
        yield made[0] if n else made
        yield numpy.array([random.choice("aé€\U0001f600") * random.choice([5, 300, 20000])] * 5)
        spoilt = numpy.array(["x" * 5] * 300)
        spoilt.view("u4")[random.randrange(1500)] = random.choice([0xD800, 0xDFFF, 0x110000, 0xFFFFFFFF])
        yield spoilt


def anything(random, depth=0):
    make = random.choice([
        lambda: key(random), lambda: key(random), lambda: key(random), lambda: None, lambda: random.random(),
        lambda: random.choice([True, False, ..., int, len, object(), 1j, float("nan"), float("inf"), 2**200, -2**200]),
        lambda: Odd(random), lambda: OddText(text(random)), lambda: random.choice(list(arrays(random))),
        lambda: bytearray(random.randbytes(8)), lambda: memoryview(b"abc")[::2], lambda: io.BytesIO(),
        lambda: tamis.Bloom(10), lambda: tamis.Bloom, lambda: keys(random, depth + 1) if depth < 2 else [],
        lambda: {text(random): tamis.Cuckoo(5)} if depth < 2 else {}])
    return make()


def keys(random, depth=0):
    n = random.choice([0, 1, 5, 300, 3000])
    some = [key(random) for _ in range(min(n, 50))] * (n // 50 + 1)
    if random.random() < 0.3 and some:
        some[random.randrange(len(some))] = anything(random, depth + 1)

    def generator():
        yield from some
        if random.random() < 0.3:
            raise ZeroDivisionError

    return random.choice([lambda: some, lambda: tuple(some), generator, lambda: iter(some), lambda: some[:20],
                          lambda: random.choice(list(arrays(random))), lambda: anything(random, 2)])()


def option(random, name):
    usual = {"capacity": [1, 10, 1000, 5000], "fpp": [0.01, 1e-4, 0.3], "window": [0, 1, 3], "growable": [True, False],
             "max_bytes": [None, 100000, 1000], "seed": [None, 1, 2], "layout": ["blocked", "classic", "word"],
             "window_renews": [True, False]}
    if random.random() < 0.04:
        return anything(random)
    if name == "capacity" and random.random() < 0.05:
        return random.choice([0, -1, 2**64, 10**6])
    return random.choice(usual[name])


class Fuzz:
    def __init__(self, seed, folder):
        self.random = random.Random(seed)
        self.folder = pathlib.Path(folder)
        self.filters = []  # and for each what must be in
        self.calls = 0
        self.raised = {}

    def path(self):
        if self.random.random() < 0.1:
            made = anything(self.random)
            # No number: a descriptor of this process is not to be played with.
            return None if isinstance(made, int) or hasattr(made, "__index__") else self._here(made)
        return self.folder / self.random.choice(["a", "b", "c", "no/such", "text"])

    def _here(self, made):
        return self.folder / made if isinstance(made, str) and "\0" not in made and "/" not in made else made

    def options(self, names):
        chosen = [name for name in names if self.random.random() < 0.3]
        return {name: option(self.random, name) for name in chosen}

    def periods(self):
        r = self.random
        return {r.choice(["periods"] * 20 + ["x"]): r.choice([None, 0, 1, 3, 4, anything(r)])} if r.random() < 0.2 else {}

    def create(self):
        r = self.random
        names = ["fpp", "growable", "max_bytes", "seed"]
        kind = r.choice([tamis.Bloom, tamis.Bloom, tamis.Cuckoo, tamis.CountingBloom])
        if kind is not tamis.CountingBloom or r.random() < 0.1:
            names += ["window", "window_renews"]
        if kind is tamis.Bloom or r.random() < 0.1:
            names += ["layout"]
        make = r.choice([kind, kind, kind, kind.bytes_for, tamis.shared, tamis.load, tamis.open, tamis.from_bytes])
        if make is tamis.shared:
            f = make(self.path(), option(r, "capacity"), **self.options(names))
        elif make in (tamis.load, tamis.open):
            f = make(self.path(), **r.choice([{}, {}, {"max_bytes": option(r, "max_bytes")}, {"check": True}]))
        elif make is tamis.from_bytes:
            f = make(self.bytes())
        else:
            f = make(option(r, "capacity"), **self.options(names))
        self.keep(f)

    def bytes(self):
        r = self.random
        if not self.filters or r.random() < 0.1:
            return anything(r)
        data = bytearray(r.choice(self.filters)[0].to_bytes())
        if r.random() < 0.7:
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
        return data[:r.randrange(len(data))] if r.random() < 0.2 else data

    def keep(self, f, inside=()):
        if isinstance(f, tamis.Filter):
            if len(self.filters) >= 12:
                del self.filters[self.random.randrange(len(self.filters))]
            self.filters.append((f, set(inside)))

    def forget(self, f):
        """Expect no key of f any more, nor of filters that may be the same file."""
        for g, inside in self.filters:
            if g is f or f.mode == g.mode == "shared":
                inside.clear()

    def change(self):
        r = self.random
        f, inside = r.choice(self.filters)
        g, others = r.choice(self.filters)
        one = key(r) if r.random() < 0.7 else anything(r)
        what = r.choice(["add", "add", "add", "in", "in", "update", "many", "many", "remove", "advance", "merge", "misc",
                         "save", "pickle", "restore", "figures", "attribute"])
        if what == "add":
            r.choice([f.add, f.add_copy])(one, **self.periods())
            if isinstance(one, (str, bytes)) and not f.window:
                inside.add(one)
        elif what == "in":
            one in f, f.count(one), f.hash(one)
        elif what == "update":
            f.update(*(keys(r) for _ in range(r.choice([0, 1, 1, 2]))), **self.periods())
        elif what == "many":
            answers = r.choice([lambda some: f.add_many(some, **self.periods()), f.contains_many])(keys(r))
            assert all(answer in (True, False) for answer in answers)
        elif what == "remove":
            self.forget(f)  # perhaps it takes another key
            r.choice([f.remove, f.discard])(one)
        elif what == "advance":
            f.advance()
        elif what == "merge":
            other = g if r.random() < 0.9 else anything(r)
            made = r.choice([f.__or__, f.__ior__, getattr(f, "__and__", f.__or__)])(other)
            assert made is NotImplemented or isinstance(made, tamis.Filter)
            if made is not f:
                self.keep(made)
        elif what == "save":
            r.choice([f.save, f.save, lambda _: f.sync()])(self.path())
        elif what == "pickle":
            # A path may lead to another filter by now.
            self.keep(r.choice([lambda: pickle.loads(pickle.dumps(f, r.randrange(6))), f.copy])(),
                      inside if f.mode == "private" else ())
        elif what == "restore":
            self.keep(f.__reduce__()[0](anything(r), r.choice(["bytes", "mapped", "shared", one]), self.path()))
        elif what == "figures":
            f.stats(), f.to_prometheus(one), f.to_json(*r.choice([(), (one,), (one, one)]))
            tamis.to_prometheus(r.choice([{"a": f, "b": g}, {one: f}, one]))
        elif what == "attribute":
            name = r.choice("capacity fpp window seed nbytes mode path x __class__ __dict__".split())
            repr(f), len(f), bool(f), getattr(f, name), setattr(f, name, one)
        else:
            name = r.choice([name for name in dir(tamis.Bloom) if name not in ("__class__", "__init_subclass__")])
            method = getattr(f, name)
            if name in ("clear", "intersection_update", "__iand__"):
                self.forget(f)
            if callable(method) and name not in ("save", "__setattr__", "__delattr__"):
                method(*(anything(r) for _ in range(r.choice([0, 1, 1, 2]))))
        missing = [k for k in inside if k not in f]
        assert not missing, f"{f} has lost {missing[:3]}"

    def step(self):
        self.calls += 1
        try:
            if not self.filters or self.random.random() < 0.15:
                self.create()
            else:
                self.change()
        except EXPECTED as error:
            if isinstance(error, RuntimeError) and not isinstance(error, RecursionError):
                assert "changed size" in str(error) or "StopIteration" in str(error), repr(error)
            name = type(error).__name__
            self.raised[name] = self.raised.get(name, 0) + 1


def exercise(folder):
    """A fixed row of calls, always the same."""
    (pathlib.Path(folder) / "text").write_text("no filter")
    fuzz = Fuzz(1, folder)
    for name in "abc":
        (pathlib.Path(folder) / name).unlink(missing_ok=True)
    for _ in range(300):
        fuzz.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        fuzz = Fuzz(options.seed, folder)
        (fuzz.folder / "text").write_text("no filter")
        # Another thread reads the filters meanwhile.
        stop = threading.Event()

        def look():
            while not stop.is_set():
                for f, _ in list(fuzz.filters):
                    f.contains_many(range(300)), f.stats()

        reader = threading.Thread(target=look)
        reader.start()
        try:
            while fuzz.calls < options.calls:
                fuzz.step()
        finally:
            stop.set()
            reader.join()
        print(f"{fuzz.calls} calls; raised: {dict(sorted(fuzz.raised.items()))}")


if __name__ == "__main__":
    sys.exit(main())
