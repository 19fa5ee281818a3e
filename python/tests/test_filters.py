# SPDX-License-Identifier: MIT
"""Filters as sets: the calls with one key, options, operators, attributes."""
import copy
import gc
import pickle
import re
import weakref

import pytest
import tamis

KINDS = [tamis.Bloom, tamis.Cuckoo, tamis.CountingBloom]


@pytest.mark.parametrize("kind", KINDS)
def test_add_and_look_up(kind):
    f = kind(capacity=10000, fpp=1e-4, seed=1)
    assert len(f) == 0 and not f
    new = sum([f.add(f"key {i}") for i in range(5000)])
    assert all(f"key {i}" in f for i in range(5000)) and 4990 <= new <= 5000
    assert f and len(f) == f.stats().count == (new if kind is tamis.Bloom else 5000)
    assert not any(f.add(f"key {i}") for i in range(5000))
    assert len(f) == (new if kind is tamis.Bloom else 10000)
    assert sum(f"other {i}" in f for i in range(10000)) < 20


@pytest.mark.parametrize("kind", [tamis.Cuckoo, tamis.CountingBloom])
def test_copies_and_removes(kind):
    f = kind(1000, 1e-5)
    f.add_copy("a")
    assert f.add("a") is False and f.count("a") == 2 and f.count("b") == 0
    assert f.add_unique("a") is False and f.add_unique_many(["a", "a"]) == [False, False] and f.count("a") == 2
    assert f.add_many(["a", "b", "b"]) == [False, True, False] and f.update(["a"]) is None
    assert f.count("a") == 4 and f.count("b") == 2 and len(f) == 6
    for _ in range(3):
        assert f.discard("a") is True and "a" in f
    f.remove("a")
    assert f.discard("a") is False and "a" not in f and "b" in f
    with pytest.raises(KeyError) as raised:
        f.remove("a")
    assert raised.value.args == ("a",)
    assert f.add_unique("c") and f.add_unique_many(["c", "d"]) == [False, True] and f.count("c") == f.count("d") == 1


@pytest.mark.parametrize("kind, window", [(tamis.Cuckoo, 0), (tamis.Cuckoo, 2), (tamis.CountingBloom, 0)])
@pytest.mark.parametrize("add", ["add", "add_copy", "add_many", "update"])
def test_removes_take_no_other_key_away(kind, window, add):
    """Many keys are false positives when they are added."""
    f = kind(2000, 0.2, seed=5, **({"window": window} if window else {}))
    kept, others = [f"kept {i}" for i in range(2000)], [f"other {i}" for i in range(2000)]
    for keys in kept, others:
        if add in ("add", "add_copy"):
            for key in keys:
                getattr(f, add)(key)
        else:
            getattr(f, add)(keys)
    assert all([f.discard(key) for key in others])
    assert all(f.contains_many(kept))


def test_a_bloom_filter_has_no_removes():
    f = tamis.Bloom(100)
    assert not hasattr(f, "remove") and not hasattr(f, "discard")
    f.add_copy("a")
    assert f.count("a") == 1


@pytest.mark.parametrize("kind", [tamis.Bloom, tamis.Cuckoo])
def test_windows(kind):
    f = kind(1000, 1e-4, window=2)
    assert f.window == 2
    f.add("old"), f.advance(), f.add("new")
    assert "old" in f
    f.advance(), f.advance()
    assert "old" not in f and "new" in f
    assert f.add("old")
    renewed = kind(1000, 1e-4, window=1, window_renews=True)
    renewed.add("a")
    for _ in range(4):
        renewed.advance()
        assert not getattr(renewed, "add_unique", renewed.add)("a")
    counted = kind(1000, 1e-4, window=1)
    counted.advance_to(7), counted.add("a"), counted.advance_to(7), counted.advance_to(3), counted.advance_to(8)
    assert "a" in counted
    counted.advance_to(2**36 - 1)
    assert "a" not in counted
    counted.add("b"), counted.set_period(5)
    assert counted.stats().period == 5 and "b" in counted
    counted.advance_to(6)
    assert "b" in counted
    counted.advance_to(7)
    assert "b" not in counted
    for call in kind(1000).advance, lambda: kind(1000).advance_to(1), lambda: kind(1000).set_period(1):
        with pytest.raises(ValueError, match="no window"):
            call()
    for bad, error in (2**36, ValueError), (-1, ValueError), (2**64, ValueError), (1.5, TypeError), ("x", TypeError):
        with pytest.raises(error):
            counted.advance_to(bad)


REFUSED = [
    (dict(), TypeError, "capacity"), (dict(capacity=0), ValueError, "capacity is 0"),
    (dict(capacity=-1), ValueError, "capacity is -1; it must be from 1 "),
    (dict(capacity=2**64), ValueError, "capacity is 18446744073709551616; it must be from 1 to 2**46"),
    (dict(capacity=2**63), ValueError, "capacity is"), (dict(capacity="1"), TypeError, "integer"),
    (dict(capacity=1.5), TypeError, "integer"), (dict(capacity=None), TypeError, "integer"),
    (dict(capacity=9, fpp=0), ValueError, "fpp is 0"), (dict(capacity=9, fpp=1), ValueError, "fpp is 1"),
    (dict(capacity=9, fpp=-1), ValueError, "fpp is -1"), (dict(capacity=9, fpp=float("nan")), ValueError, "fpp is nan"),
    (dict(capacity=9, fpp=float("inf")), ValueError, "fpp is inf"), (dict(capacity=9, fpp=1e-300), ValueError, "fpp"),
    (dict(capacity=9, fpp="x"), TypeError, ""), (dict(capacity=9, seed=-1), ValueError, "seed is -1; it must be from 0"), (dict(capacity=9, seed=2**64), ValueError, "seed is"),
    (dict(capacity=9, max_bytes=0), ValueError, "max_bytes is 0; it must be from 1"),
    (dict(capacity=9, max_bytes=1), ValueError, "max_bytes is 1"),
    (dict(capacity=10**9, max_bytes=10**6), ValueError, "max_bytes is 1000000"),
    (dict(capacity=9, unknown=1), TypeError, "unknown"),
]
OF_BLOOM = [
    (dict(capacity=9, window=65), ValueError, "window is 65"), (dict(capacity=9, window=-1), ValueError, "from 0 to 64"),
    (dict(capacity=9, window=2**40), ValueError, "window is 1099511627776; it must be from 0 to 64"),
    (dict(capacity=9, window_renews=True), ValueError, "window_renews is true; it needs a window"),
    (dict(capacity=9, layout="x"), ValueError, "layout is 'x'"), (dict(capacity=9, layout=1), ValueError, "layout is 1"),
    (dict(capacity=9, layout="\ud800"), UnicodeEncodeError, ""),
    (dict(capacity=9, layout="word", fpp=1e-6), ValueError, "of the word layout for 9 keys"),
    (dict(capacity=9, layout="word", window=2), ValueError, "layout is word; with a window it must be blocked or classic"),
]
# What a program in Python cannot mean.
OF_C = re.compile(r"TAMIS_|NULL|\b0 for |\b0 \(|\(false\)|\bis [01]; the filter in the file")


@pytest.mark.parametrize("kind", KINDS)
def test_options_that_are_refused(kind):
    for options, error, words in REFUSED + (OF_BLOOM if kind is tamis.Bloom else []):
        for call in (kind,) if options.get("max_bytes") else (kind, kind.bytes_for):
            with pytest.raises(error) as raised:
                call(**options)
            assert words in str(raised.value) and not OF_C.search(str(raised.value)), (options, raised.value)


def test_abstract_and_sealed():
    with pytest.raises(TypeError, match="Bloom, Cuckoo or CountingBloom"):
        tamis.Filter()
    with pytest.raises(TypeError):
        tamis.Bloom.add = None
    with pytest.raises(AttributeError):
        tamis.Bloom(9).capacity = 3
    with pytest.raises(AttributeError):
        tamis.Bloom(9).anything = 3


@pytest.mark.parametrize("kind", KINDS)
def test_full(kind):
    f = kind(100, 1e-4, growable=False)
    with pytest.raises(tamis.FullError) as raised:
        for i in range(1000):
            f.add(i)
    assert isinstance(raised.value, tamis.Error) and i >= 100 - 5
    assert all(k in f for k in range(i))
    with pytest.raises(tamis.FullError) as raised:
        kind(100, 1e-4, growable=False).add_many(range(1000))
    results = raised.value.results
    assert len(results) >= 100 and None in results and results.count(True) >= 95


def test_growth_and_limits():
    f = tamis.Cuckoo(100, 1e-4)
    f.update(range(10000))
    assert all(f.contains_many(range(10000))) and f.stats().growths > 0
    f = tamis.Bloom(1000, 0.01, max_bytes=8000)
    with pytest.raises(tamis.FullError):
        f.update(range(100000))
    assert f.nbytes <= 8000
    assert 900 * 8 < tamis.Bloom.bytes_for(1000, 1e-9) < 20000
    for kind in KINDS:
        with pytest.raises(MemoryError, match=f"{kind.bytes_for(2**41, growable=False)} bytes"):
            kind(2**41, growable=False)


def test_unions_in_place_and_similarity():
    options = dict(capacity=1000, fpp=1e-6, growable=False, seed=5)
    a, b = tamis.Bloom(**options), tamis.Bloom(**options)
    a.update(["x", "y"]), b.update(["y", "z"])
    assert a.similarity(b).jaccard == pytest.approx(1 / 3, rel=0.1)
    same = a
    a |= b
    assert a is same and "z" in a
    before = a.to_bytes()
    a |= a
    assert a is same and a.to_bytes() == before
    cuckoos = [tamis.Cuckoo(1000, seed=5) for _ in range(2)]
    cuckoos[0].add("x"), cuckoos[1].add("y")
    assert [k in cuckoos[0] | cuckoos[1] for k in "xyz"] == [True, True, False]
    cuckoos[0] |= cuckoos[0]
    assert cuckoos[0].count("x") == (cuckoos[0] | cuckoos[1]).count("x") == 2
    window = tamis.Bloom(1000, window=2)
    window.add("x")
    window |= window
    assert "x" in window
    assert not hasattr(cuckoos[0], "__and__")


def test_attributes_and_figures():
    f = tamis.Bloom(1000, 1e-6, seed=7, layout="classic")
    f.update(range(100))
    assert (f.capacity, f.fpp, f.seed, f.window, f.mode, f.path) == (1000, 1e-6, 7, 0, "private", None)
    s = f.stats()
    assert (s.kind, s.layout, s.count, s.capacity, s.window) == ("bloom", "classic", 100, 1000, 0)
    assert s.bytes == f.nbytes and not hasattr(s, "seed") and s.load == pytest.approx(0.1, rel=0.05)
    with pytest.raises(Exception):
        s.count = 1
    assert (f.kind, f.layout, f.growable, f.max_bytes, f.window_renews) == ("bloom", "classic", True, None, False)
    w = tamis.Cuckoo(1000, window=3, window_renews=True, growable=False, max_bytes=10**6)
    assert (w.kind, w.layout, w.growable, w.max_bytes, w.window_renews) == ("cuckoo", None, False, 10**6, True)
    assert repr(w) == "<Cuckoo capacity=1000 fpp=0.01 window=3 growable=False, 0 keys>"
    assert repr(tamis.shared(None, 9)) == "<Bloom capacity=9 fpp=0.01 growable=False, 0 keys, shared>"
    assert repr(tamis.CountingBloom(9)) == "<CountingBloom capacity=9 fpp=0.01, 0 keys>"
    assert repr(tamis.Ticker(w, 5)) == f"<Ticker seconds=5 of {w!r}>"
    assert repr(f) == f"<Bloom capacity=1000 fpp=1e-06, {len(f)} keys>" and "seed" not in f.to_json()
    c = tamis.Cuckoo(1000).stats()
    assert (c.kind, c.layout, c.generations) == ("cuckoo", None, 1) and c.fingerprint_bits > 0
    assert tamis.CountingBloom(1000).stats().kind == "counting_bloom"
    assert tamis.Bloom(1000, window=3).stats().window == 3


def test_text():
    import json

    f, g = tamis.Bloom(1000), tamis.Cuckoo(1000)
    assert json.loads(f.to_json("it's \"one\""))["name"] == "it's \"one\"" and json.loads(f.to_json())["kind"] == "bloom"
    assert 'tamis_keys{name="seen"} 0' in f.to_prometheus("seen")
    page = tamis.to_prometheus({"a": f, "b": g})
    assert page.count("# TYPE tamis_keys ") == 1 and 'tamis_keys{name="b"} 0' in page
    assert tamis.to_prometheus({}) == ""
    for bad, error in [(1, TypeError), (None, TypeError), ("\ud800", UnicodeEncodeError), ("a\0b", ValueError)]:
        with pytest.raises(error):
            f.to_prometheus(bad)
        with pytest.raises(error):
            tamis.to_prometheus({bad: f})
    for bad in ["x", 1, None, [f], {"a": 1}]:
        with pytest.raises(TypeError):
            tamis.to_prometheus(bad)
    client = pytest.importorskip("prometheus_client.parser")
    families = {family.name for family in client.text_string_to_metric_families(page)}
    assert {"tamis_keys", "tamis_bytes", "tamis_adds_refused"} <= families


@pytest.mark.parametrize("kind", KINDS)
def test_copies_have_the_same_keys_and_nothing_else_in_common(kind):
    f = kind(1000, 1e-5, seed=1)
    f.update(range(500))
    made = [way(f) for way in COPIES.values()]
    made += [tamis.from_bytes(f.to_bytes()), tamis.from_bytes(bytearray(f.to_bytes()))]
    f.add("later")
    for g in made:
        assert type(g) is kind and all(g.contains_many(range(500))) and "later" not in g
        assert (g.capacity, g.fpp, g.seed) == (f.capacity, f.fpp, f.seed) and g.mode == "private"
        assert g.add("later")


class Derived(tamis.Bloom):
    def __init__(self, *arguments, **options):
        self.name = "mine"

    def add_all(self, keys):
        self.update(keys)
        return self


class Slotted(Derived):
    __slots__ = "slot", "empty"

    def __init__(self, *arguments):
        super().__init__()
        self.slot = ["list"]


class Stated(Derived):
    def __getstate__(self):
        return {"name": self.name + "'s"}


class Restored(Stated):
    def __setstate__(self, state):
        self.restored = state["name"]


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "method": lambda f: f.copy(),
          **{f"pickle {p}": lambda f, p=p: pickle.loads(pickle.dumps(f, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)}}


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_derived_types(way):
    for kind, expected in (Derived, dict(name="mine")), (Slotted, dict(name="mine", slot=["list"])), \
            (Stated, dict(name="mine's")), (Restored, dict(restored="mine's")):
        f = kind(1000).add_all(["a", "b"])
        g = COPIES[way](f)
        assert type(g) is kind and "a" in g and all(getattr(g, name) == value for name, value in expected.items())
        assert not hasattr(g, "empty") and ("name" in expected) == hasattr(g, "name")
    deep = COPIES[way](s := Slotted(10)).slot is not s.slot
    assert deep == (way not in ("copy", "method"))


def test_derived_types():
    f = Derived(1000).add_all(["a", "b"])
    assert "a" in f | tamis.from_bytes(f.to_bytes()) and "a" in Slotted(10).add_all(["a"]).copy()
    with pytest.raises(ValueError, match="Derived"):
        f.__reduce__()[0](Derived, "bytes", tamis.Cuckoo(10).to_bytes())


def test_restore_is_told_nonsense():
    restore = tamis.Bloom(9).__reduce__()[0]
    for arguments in [(), (1, 2, 3), (int, "bytes", b""), (tamis.Bloom, "nothing", b""), (tamis.Bloom, b"x", b"")]:
        with pytest.raises((TypeError, ValueError)):
            restore(*arguments)


def test_weak_references_and_cycles():
    f = Derived(100)
    f.itself = f
    died = []
    reference = weakref.ref(f, died.append)
    del f
    gc.collect()
    assert reference() is None and died
    g = tamis.Bloom(100)
    reference = weakref.ref(g)
    assert reference() is g
    del g
    assert reference() is None


def test_one_seed_gives_one_answer_in_each_run(spawned):
    program = "import tamis; f = tamis.Bloom(9, seed=1); print(f.hash('key'), f.hash(5), f.hash(b''))"
    assert len({spawned(program, PYTHONHASHSEED=str(seed)) for seed in range(3)}) == 1
