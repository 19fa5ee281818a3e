# SPDX-License-Identifier: MIT
"""What filters have as sets have it, and the seed by which filters of one program fit together."""
import gc
import io
import itertools
import multiprocessing
import operator
import os
import subprocess
import sys
import threading

import pytest
import tamis
from together import in_child, run

WAYS = [dict(growable=growable, layout=layout) for growable in (True, False) for layout in ("blocked", "classic", "word")]


def bloom(*keys, **options):
    f = tamis.Bloom(1000, **options)
    f.update(keys)
    return f


# ---- seeds ----

def test_default_filters_fit_together():
    a, b = bloom(1, 2), bloom(2, 3)
    assert a.seed == b.seed == tamis.Cuckoo(9).seed == tamis.shared(None, 9).seed
    assert [k in a | b for k in (1, 2, 3, 4)] == [True] * 3 + [False]
    assert [k in a & b for k in (1, 2, 3, 4)] == [False, True, False, False]
    own = {tamis.Bloom(9, seed=0).seed for _ in range(9)} | {a.seed, 0}
    assert len(own) == 11


def test_files_have_a_seed_of_their_own(tmp_path):
    shared = tamis.shared(tmp_path / "a", 9), tamis.shared(tmp_path / "b", 9)
    assert len({f.seed for f in shared} | {bloom().seed}) == 3
    assert tamis.shared(tmp_path / "a", 9).seed == shared[0].seed


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_have_the_seed(tmp_path, method):
    # In a program of its own: whether a filter or the child comes first.
    program = """import sys, multiprocessing, tamis
def add(results, f):
    g = tamis.Bloom(1000)
    g.add(sys.argv[3])
    results.put((g | f if f else g))
def ask(f):
    context = multiprocessing.get_context(sys.argv[1])
    results = context.SimpleQueue()
    process = context.Process(target=add, args=(results, f))
    process.start()
    answer = results.get()
    process.join()
    return answer
if __name__ == "__main__":
    f = tamis.Bloom(1000) if sys.argv[2] == "filter" else None
    g = ask(f)
    f = f or tamis.Bloom(1000)
    assert sys.argv[3] in f | g and g == ask(None) and f.seed == g.seed
    print(f.seed)
"""
    (tmp_path / "program.py").write_text(program)
    seeds = {int(subprocess.run([sys.executable, tmp_path / "program.py", method, first, "key"], timeout=60, check=True,
                                stdout=subprocess.PIPE).stdout) for first in ("filter", "child")}
    assert len(seeds) == 2 and not seeds & {bloom().seed}


def test_children_of_children_have_the_seed(spawn):
    assert nested(spawn, 2) == bloom().seed


def nested(context, depth):
    return bloom().seed if depth == 0 else in_child(context, nest, depth - 1)


def nest(depth, results):
    results.put(nested(multiprocessing.get_context("spawn"), depth))


def test_a_forked_child_has_the_seed(spawned):
    assert spawned("""import os, tamis
read, write = os.pipe()
if os.fork() == 0:  # before any filter
    os.write(write, str(tamis.Bloom(9).seed).encode())
    os._exit(0)
os.wait()
assert int(os.read(read, 100)) == tamis.Bloom(9).seed
print("same")""") == "same\n"


def test_the_seed_is_in_no_environment(spawned):
    seed = bloom().seed
    told = [*os.environ.values(), *spawned("import os; print(*os.environ.values())").split()]
    assert not any(str(seed) in text or f"{seed:x}" in text for text in told)
    assert spawned("import tamis; print(tamis.Bloom(9).seed)") != f"{seed}\n"


# ---- operations ----

@pytest.mark.parametrize("options", WAYS)
def test_as_sets(options):
    """Every pair of small sets, next to sets.  (No two keys have one set of bits.)"""
    sets = [frozenset(keys) for n in range(4) for keys in itertools.combinations("abc", n)]
    for x, y in itertools.product(sets, repeat=2):
        f, g = bloom(*x, **options, seed=7), bloom(*y, **options, seed=7)
        for operation in "__le__", "__lt__", "__ge__", "__gt__", "__eq__", "__ne__", "issubset", "issuperset":
            assert getattr(f, operation)(g) is getattr(x, operation)(y), (operation, x, y)
        for other in g, list(y), (key for key in y):
            assert f.union(other) == f | g == bloom(*(x | y), **options, seed=7)
        for other in g, list(y), (key for key in y):
            assert f.intersection(other) == f & g and all(key in f & g for key in x & y)
        assert f.issubset(list(y)) is x.issubset(y) and f.issuperset(list(y)) is x.issuperset(y)
        assert f.isdisjoint(list(y)) is x.isdisjoint(y)
        assert f.isdisjoint(g) in (x.isdisjoint(y), False)


def test_several_others():
    a, b, c = bloom(1, 2, 3), bloom(2, 3, 4), bloom(3, 4, 5)
    assert a.union() == a and a.union() is not a and a.intersection() == a and a.intersection() is not a
    every = a.union(b, [4, 5], (key for key in [6]))
    assert all(every.contains_many(range(1, 7))) and a == bloom(1, 2, 3)
    assert [k in a.intersection(b, c, [3, 9]) for k in range(1, 6)] == [False, False, True, False, False]
    a.update(b, [9], a)
    assert 4 in a and 9 in a
    a.intersection_update(b, a, range(4))
    assert [k in a for k in range(1, 6)] == [False, True, True, False, False]
    same = a
    a &= c
    assert a is same and [k in a for k in range(1, 6)] == [False, False, True, False, False]
    a &= a
    assert 3 in a and a == a.copy() == a & a
    class Own(tamis.Bloom):
        pass
    own = Own(1000)
    own.name, own.seen = "x", own.add(1)
    own &= bloom(1)
    own.clear()
    assert (type(own), own.name, len(own), 1 in own) == (Own, "x", 0, False)


def test_what_does_not_fit():
    a = bloom(1)
    for other in bloom(1, seed=0), tamis.Bloom(99), bloom(growable=False), bloom(layout="classic"), tamis.CountingBloom(1000):
        assert a != other and not a == other
        for call in (a.union, a.update, a.intersection, a.intersection_update, a.issubset, a.issuperset, a.isdisjoint, a.__le__,
                     a.similarity):
            with pytest.raises(ValueError, match="same options and seed|have an intersection"):
                call(other)
    for other in 1, None, "ab", {1}:
        assert a != other
        for call in a.union, a.update, a.intersection, a.intersection_update, a.issubset, a.issuperset, a.isdisjoint:
            if other != {1}:  # which is no filter, but has keys
                with pytest.raises(TypeError):
                    call(other)
        for operation in operator.lt, operator.and_, operator.iand, operator.or_, operator.ior:
            for operands in (a, other), (other, a):
                with pytest.raises(TypeError):
                    operation(*operands)
        with pytest.raises(TypeError):
            a.similarity(other)
    with pytest.raises(TypeError, match="unhashable"):
        {a}
    assert a == bloom(1)


def test_grown_filters():
    a, b = bloom(*range(5000)), bloom(*range(9))
    assert b < a and not a <= b and a == a.copy() and a != b and a | b == a
    for call in (lambda: a & b, lambda: b & a, lambda: b.intersection_update(a), lambda: a.isdisjoint(b)):
        with pytest.raises(ValueError, match="have not grown"):
            call()
    a.clear()
    assert a & b == bloom() and a.stats().layers == 1


def test_other_kinds():
    c, d = tamis.CountingBloom(1000), tamis.CountingBloom(1000)
    c.update([1, 2]), d.update([1, 1, 2])
    assert c < d and d.issuperset(c) and d.issuperset([1]) and c != d and not hasattr(c, "intersection")
    c.update([1])
    assert c == d and c.union([3]) != d
    for f in tamis.Cuckoo(1000), tamis.Bloom(1000, window=3), tamis.Cuckoo(1000, window=3):
        f.update([1, 2])
        assert f == f.copy() and f != f.union([3]) and f.union([3]).issuperset([1, 3]) if f.kind == "bloom" else True
        assert f.isdisjoint([5, 6]) and not f.isdisjoint([5, 1])
        with pytest.raises((TypeError, ValueError)):
            f <= f
        f.clear()
        assert 1 not in f and not f and f.window in (0, 3)


@pytest.mark.parametrize("kind", [tamis.Bloom, tamis.Cuckoo])
def test_a_cleared_window_stays_in_its_period(kind):
    f = kind(100, window=2)
    f.advance_to(77)
    f.clear()
    f.add("apple")
    f.advance_to(77)
    assert "apple" in f and f.stats().period == 77


def test_what_cannot_be_cleared(tmp_path):
    bloom(1).save(tmp_path / "m")
    mapped, shared = tamis.open(tmp_path / "m"), tamis.shared(None, 1000)
    for f in mapped, shared:
        for call in f.clear, lambda: f.intersection_update([1]), lambda: f.__iand__(f):
            with pytest.raises(io.UnsupportedOperation):
                call()
    assert mapped == tamis.load(tmp_path / "m") and 1 in mapped & mapped
    shared.add(1)
    assert 1 in shared & shared and 1 in shared.union([2])


def test_clear_gives_memory_back():
    f = tamis.Cuckoo(1000)
    before = f.nbytes
    f.update(range(100_000))
    assert f.nbytes > 10 * before
    f.clear()
    assert f.nbytes == before and f.add(1) and (f.capacity, f.seed) == (1000, tamis.Cuckoo(9).seed)


def test_clear_while_others_use_the_filter():
    """What a call works on stays until it ends; nothing piles up meanwhile."""
    f, g = tamis.Bloom(10_000), tamis.Bloom(10_000)
    g.update(range(100))
    done = threading.Event()

    def use():
        while not done.is_set():
            f.update(range(3000)), f.contains_many(list(range(1000))), f.add_many([1, 2]), f.to_bytes()
            f | g, f == g, f <= g, f & g, f.similarity(g), tamis.contains_each_many([f, g], range(500)), f.stats(), repr(f)

    def clear():
        try:
            before = resident()
            for _ in range(5000):
                f.clear()
                f.intersection_update(g)
            assert resident() - before < 50 * 2**20
        finally:
            done.set()

    run(use, use, use, clear)
    f.clear()
    assert not f and f == tamis.Bloom(10_000)


def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_clear_within_a_batch():
    """A generator that clears the filter: keys after that are in."""
    f = bloom("old")

    def keys():
        yield from range(3000)
        f.clear()
        yield from range(3000, 6000)
    f.update(keys())
    assert all(f.contains_many(range(4096, 6000))) and "old" not in f
    answers = tamis.contains_each([f, f], type("K", (), {"__index__": lambda self: f.clear() or 5000})())
    assert answers == [True, True] and 5000 not in f
