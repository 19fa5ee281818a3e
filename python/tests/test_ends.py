# SPDX-License-Identifier: MIT
"""Keys of a window that end by themselves: the keyword periods of adds, and seconds where a clock is known."""
import random

import pytest
import tamis

KINDS = [tamis.Bloom, tamis.Cuckoo]


def iterated(keys):
    yield from keys


# Each adds keys, and says which were new, if it can.  Of a Cuckoo those of CALLS add a copy of a key that is in.
CALLS = {"add": lambda f, keys, **periods: [f.add(key, **periods) for key in keys],
         "add_copy": lambda f, keys, **periods: [f.add_copy(key, **periods) for key in keys],
         "add_many": lambda f, keys, **periods: f.add_many(keys, **periods),
         "add_many of an iterator": lambda f, keys, **periods: f.add_many(iterated(keys), **periods),
         "update": lambda f, keys, **periods: f.update(keys[:1], iterated(keys[1:]), **periods)}
CALLS_OF_CUCKOO = {"add_unique": lambda f, keys, **periods: [f.add_unique(key, **periods) for key in keys],
                   "add_unique_many": lambda f, keys, **periods: f.add_unique_many(keys, **periods)}
ALL = {**CALLS, **CALLS_OF_CUCKOO}


def ways(kind):
    return [way for way in ALL if kind is tamis.Cuckoo or way in CALLS]


def is_copy(kind, way):
    """Whether it adds a key also if that is in."""
    return way == "add_copy" or kind is tamis.Cuckoo and way in CALLS


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused(kind):
    f = kind(100, window=5)
    for way in ways(kind):
        for bad, error in [(-1, ValueError), (6, ValueError), (2**64, ValueError), (-2**70, ValueError), (1.0, TypeError),
                           ("1", TypeError), ([], TypeError), (float("nan"), TypeError)]:
            with pytest.raises(error):
                ALL[way](f, ["a"], periods=bad)
        with pytest.raises(TypeError, match="keyword is periods"):
            ALL[way](f, ["a"], period=1)
    assert "a" not in f and len(f) == 0
    for call in f.add, f.add_copy, f.add_many:
        for arguments in (), ("a", 1):
            with pytest.raises(TypeError, match="exactly one"):
                call(*arguments)
    with pytest.raises(ValueError, match="periods is 6; it must be from 0 to the filter's window"):
        f.update(periods=6)
    with pytest.raises(ValueError, match="own ends"):
        f.update(["b"], f.copy(), periods=1)
    assert "b" not in f
    for without in kind(100), tamis.CountingBloom(100):
        for n in 0, 1:
            for call in without.add, without.add_copy, without.add_many, without.update:
                with pytest.raises(ValueError, match="has no window"):
                    call("a", periods=n)
        assert without.add("a", periods=None) and without.update(["a"], periods=None) is None


@pytest.mark.parametrize("kind", KINDS)
def test_arrays(kind):
    numpy = pytest.importorskip("numpy")
    f, keys = kind(10000, 1e-6, window=3, seed=1), numpy.arange(5000)
    f.update(keys[:2500], periods=1)
    assert not f.add_many(keys[2400:2500], periods=0).any() and f.add_many(keys[2500:], periods=2).all()
    for age, lives in enumerate([5000, 5000, 2500, 0]):
        assert f.contains_many(keys).sum() == lives, age
        f.advance()


class Model:
    """The period in which each key ends, as the fine print says."""

    def __init__(self, kind, window, renews):
        self.kind, self.window, self.renews = kind, window, renews
        self.period, self.ends, self.copies = 0, {}, {}

    def has(self, key):
        return self.ends.get(key, -1) >= self.period

    def add(self, way, key, n):
        """Whether the key is new."""
        is_new = not self.has(key)
        if is_new or self.renews or is_copy(self.kind, way):
            end = self.period + (self.window if n is None else n)
            self.ends[key] = end if is_new else max(end, self.ends[key])
        self.copies[key] = 1 if is_new else self.copies[key] + is_copy(self.kind, way)
        return is_new

    def count(self, key):
        return (self.copies[key] if self.kind is tamis.Cuckoo else 1) if self.has(key) else 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window, renews", [(1, False), (7, True), (64, False)])
def test_random_steps(kind, window, renews):
    dice = random.Random(window)
    f, model = kind(2000, 2e-6, window=window, window_renews=renews, seed=3), Model(kind, window, renews)
    for step in range(3000):
        keys = [f"key {dice.randrange(60)}" for _ in range(dice.choice([1, 1, 2, 5]))]
        if dice.random() < 0.7:
            way, n = dice.choice(ways(kind)), dice.choice([None, dice.randrange(window + 1)])
            said, expected = ALL[way](f, keys, periods=n), [model.add(way, key, n) for key in keys]
            assert way in ("add_copy", "update") or said == expected, f"step {step}: {way} of {keys} for {n}"
        elif dice.random() < 0.5:
            model.period += dice.choice([1, 1, 1, 2, window, window + 1])
            f.advance_to(model.period)
        assert f.contains_many(keys) == [model.has(key) for key in keys], f"step {step}"
        assert [f.count(key) for key in keys] == [model.count(key) for key in keys], f"step {step}"


# ---- seconds ----


def test_the_periods_of_a_ticker():
    f = tamis.Bloom(1000, window=12)
    for length in 300, 0.5, 7.25:
        ticker = tamis.Ticker(f, length)
        for n in range(13):
            assert ticker.periods(n * length) == n
            assert n == 12 or ticker.periods((n + 0.001) * length) == ticker.periods((n + 0.999) * length) == n + 1
        for bad in -0.001, 12.001 * length, float("nan"), float("inf"):
            with pytest.raises(ValueError, match="seconds is"):
                ticker.periods(bad)
        with pytest.raises(TypeError):
            ticker.periods("1")
    for length in 0.1, 1 / 3, 7.3:  # of which a multiple is rounded
        assert tamis.Ticker(f, length).periods(12 * length) == 12


def work(once, id, **seconds):
    with once.claim(id, **seconds) as first:
        return first


@pytest.mark.parametrize("periods, remember", [(1, 80), (8, 80), (7, 10.5), (64, 3600 / 7)])
def test_messages_end_within_a_period(tmp_path, monkeypatch, periods, remember):
    now, dice, length = [1.7e9], random.Random(periods), remember / periods
    monkeypatch.setattr("time.time", lambda: now[0])
    once = tamis.Once(tmp_path / "done", 1000, 1e-6, remember=remember, periods=periods)
    for i in range(300):
        seconds = dice.choice([0, remember, dice.random() * remember, dice.randrange(periods + 1) * length])
        now[0] += dice.choice([0, length, dice.random() * remember])
        begun = now[0]
        assert work(once, i, seconds=seconds) and not work(once, i, seconds=remember)  # which changes nothing
        now[0] = begun + seconds
        assert i in once, f"message {i}, {seconds} s after {begun}"
        now[0] = begun + seconds + length * 1.000001
        assert i not in once, f"message {i}, {seconds} s and a period after {begun}"


def test_messages_with_no_end_of_their_own(tmp_path):
    once, ever = tamis.Once(tmp_path / "done", 1000, remember=80), tamis.Once(tmp_path / "ever", 1000)
    assert work(once, "a", seconds=None) and "a" in once and work(ever, "a", seconds=None)
    for bad in -1, 80.1, float("nan"), float("inf"):
        with pytest.raises(ValueError, match="from 0 to remember, 80"):
            once.claim("b", seconds=bad)
    with pytest.raises(TypeError):
        once.claim("b", seconds="1")
    with pytest.raises(ValueError, match="for ever"):
        ever.claim("b", seconds=1)
