# SPDX-License-Identifier: MIT
"""Filters that processes share, and filters on their way to other processes."""
import copy
import multiprocessing
import os
import pickle

import pytest
import tamis
from together import forked, in_child


def add_in(f, key, results):
    results.put((f.add(key), "parent" in f, f.mode))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_filters_as_arguments(tmp_path, method):
    context = multiprocessing.get_context(method)
    private = tamis.Bloom(1000, 1e-6)
    shared = tamis.shared(tmp_path / "s.tamis", 1000, 1e-6)
    private.save(tmp_path / "m.tamis")
    for f, comes_back in (private, False), (shared, True):
        f.add("parent")
        assert in_child(context, add_in, f, "child") == (True, True, f.mode)
        assert ("child" in f) is comes_back


def test_a_pool(tmp_path, spawn):
    f = tamis.Bloom(1000, 1e-6)
    f.update(range(100))
    with spawn.Pool(2) as pool:
        assert pool.map(f.__contains__, range(50, 150)) == [True] * 50 + [False] * 50


def test_memory_without_a_name():
    f = tamis.shared(None, 1000, 1e-6)
    assert forked(lambda: f.add("child") or 1 / 0) == 0
    assert "child" in f and f.path is None
    for call in pickle.dumps, copy.copy:
        with pytest.raises(TypeError, match="path"):
            call(f)


def test_descriptors():
    memory = os.memfd_create("tamis")
    f = tamis.shared(memory, 1000, 1e-6)
    g = tamis.shared(memory)
    os.close(memory)
    assert f.add("a") and not g.add("a") and f.path is None
    with pytest.raises(OSError):
        tamis.shared(memory)
    for bad in -1, 2**40, True - 2:
        with pytest.raises((ValueError, OverflowError, OSError)):
            tamis.shared(bad, 1000)


def test_one_file(tmp_path):
    path = tmp_path / "s.tamis"
    f = tamis.shared(path, capacity=1000, fpp=1e-6, seed=5)
    assert (f.mode, f.path, f.seed) == ("shared", str(path), 5)
    for g in tamis.shared(str(path)), tamis.shared(path, 1000, 1e-6), copy.copy(f), pickle.loads(pickle.dumps(f)):
        assert g.path == str(path) and g.add(id(g)) and not f.add(id(g))
    assert f.sync() is None
    with pytest.raises(ValueError, match="not shared"):
        tamis.Bloom(9).sync()
    f.save(tmp_path / "copy.tamis")
    assert tamis.load(tmp_path / "copy.tamis").mode == "private"
    private = tamis.from_bytes(f.to_bytes())
    assert private.stats().count == f.stats().count
    both = f | f
    assert both.mode == "private"
    grows = tamis.shared(tmp_path / "g.tamis", 1000, max_bytes=1 << 20)
    grows.update(range(5000))
    assert grows.stats().layers > 1
    for shared in f, grows:  # of a file, what follows the filter is no part of it
        with open(shared.path, "rb") as file:
            assert tamis.from_bytes(file.read()) == shared


def test_what_cannot_be_shared(tmp_path):
    path = tmp_path / "s.tamis"
    tamis.shared(path, 1000, 1e-6)
    wrong = [((path, 2000), {}, "capacity is 2000; the filter in the file has 1000"), ((path, 1000), {}, "fpp is 0.01"),
             ((path, 1000, 1e-6), dict(seed=3), "seed"),
             ((path, 1000, 1e-6), dict(layout="classic"), "layout is classic; the filter in the file has blocked"),
             ((path, 1000, 1e-6), dict(max_bytes=10**6), "growable is true; the filter in the file has false"),
             ((tmp_path / "new", 1000), dict(growable=True), "max_bytes is not set"), ((tmp_path / "new", 0), {}, "capacity is 0"),
             ((None,), {}, "needs a capacity"), ((tmp_path / "new", 1000, 7), {}, "fpp is 7")]
    for arguments, options, words in wrong:
        with pytest.raises(ValueError) as raised:
            tamis.shared(*arguments, **options)
        assert words in str(raised.value)
    with pytest.raises(FileNotFoundError) as raised:
        tamis.shared(tmp_path / "new")
    assert raised.value.filename == tmp_path / "new" and not (tmp_path / "new").exists()
    for arguments in (), (path, "x"), (path, 1, 2, 3), (1.5, 100), (object(), 100), (True, 100):
        with pytest.raises(TypeError):
            tamis.shared(*arguments)
    (tmp_path / "text").write_text("no filter")
    with pytest.raises(tamis.CorruptError, match="text"):
        tamis.shared(tmp_path / "text")
    tamis.Bloom(9).save(tmp_path / "saved")
    with pytest.raises(ValueError):
        tamis.shared(tmp_path / "saved")


def take_in(f, key, results):
    results.put((f.discard(key), f.discard(key), f.add("child"), f.add("child")))


def test_cuckoo_filters_that_processes_share(tmp_path, spawn):
    path = tmp_path / "c.tamis"
    f = tamis.shared(path, 1000, 1e-6, kind=tamis.Cuckoo)
    assert type(f) is tamis.Cuckoo and f.mode == "shared"
    assert f.add("lease") and not f.add("lease")
    assert in_child(spawn, take_in, f, "lease") == (True, True, True, False)
    g = tamis.shared(path)
    assert type(g) is tamis.Cuckoo and "lease" not in g and g.count("child") == f.count("child") == 2
    for copies in range(2, 6):
        assert not g.add("child") and f.count("child") == copies + 1
    with pytest.raises(tamis.FullError):
        f.add("child")
    assert tamis.shared(path, 1000, 1e-6, kind=tamis.Cuckoo).stats().count == 6
    for copy_of in tamis.load(path), tamis.from_bytes(f.to_bytes()):
        assert type(copy_of) is tamis.Cuckoo and copy_of.mode == "private" and copy_of.count("child") == 6
        copy_of.remove("child")
        assert copy_of.count("child") == 5 and f.count("child") == 6
    for wrong in dict(kind=tamis.Bloom), dict(kind=tamis.Cuckoo, growable=True), dict(kind=tamis.Cuckoo, window=2):
        with pytest.raises(ValueError):
            tamis.shared(path, 1000, 1e-6, **wrong)
    with pytest.raises(ValueError):
        tamis.shared(path, kind=tamis.Bloom)
    for wrong in dict(kind=tamis.CountingBloom), dict(kind="cuckoo"), dict(kind=tamis.Cuckoo, layout="blocked"):
        with pytest.raises(TypeError):
            tamis.shared(path, 1000, 1e-6, **wrong)


def test_windows_that_processes_share(tmp_path, spawn):
    path = tmp_path / "w.tamis"
    f = tamis.shared(path, 1000, 1e-6, window=2)
    f.advance_to(100)
    f.add("parent")
    assert in_child(spawn, add_in, f, "child") == (True, True, "shared")
    g = tamis.shared(path)
    assert g.window == 2 and "child" in f and "child" in g
    for same in f, g, f:
        same.advance_to(101)
    assert "child" in f and "parent" in g
    g.advance_to(103)
    assert "child" not in f and f.add("child") and not g.add("child")
    with pytest.raises(ValueError):
        tamis.shared(tmp_path / "grows", 1000, window=2, growable=True, max_bytes=10**6)
