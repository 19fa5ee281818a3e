# SPDX-License-Identifier: MIT
"""Threads on one filter, the GIL, the Ticker."""
import random
import sys
import threading
import time

import pytest
import tamis
from together import run

numpy = pytest.importorskip("numpy")


@pytest.fixture(autouse=True)
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_all_calls_at_once(tmp_path):
    f = tamis.Cuckoo(1000, 1e-4, window=3)
    until = time.monotonic() + 1.0

    def repeat(call):
        def body():
            while time.monotonic() < until:
                call()
        return body

    run(*map(repeat, [
        lambda: f.update(range(3000)), lambda: f.contains_many(numpy.arange(3000)), lambda: f.save(tmp_path / "f"),
        lambda: tamis.from_bytes(f.to_bytes()), f.advance, f.stats, lambda: f.to_prometheus("x"), f.copy,
        lambda: [f.add(1), f.discard(1), f.count(1), 1 in f, len(f)]]))


def test_a_filter_outlives_its_batch():
    """The only reference to the filter is that of the call."""
    keys = numpy.arange(300000)

    def body():
        for _ in range(5):
            tamis.Bloom(1000, 0.01).update(keys)
            tamis.Cuckoo(1000, 0.01).add_many(keys[:50000])

    run(body, body)


def test_a_buffer_stays_while_a_batch_reads_it():
    """An array that is exported cannot change its size, not even to one for which it has the room."""
    import array

    f, keys, refused = tamis.Bloom(10**6, 1e-6), array.array("q", range(10**6)), 0
    done = threading.Event()

    def resize():
        nonlocal refused
        while not done.is_set():
            try:
                keys.append(keys.pop())
            except BufferError:
                refused += 1
            time.sleep(0.0001)

    def batch():
        try:
            assert any(f.contains_many(keys) and refused for _ in range(50)), "never refused"
        finally:
            done.set()

    run(resize, batch)
    assert refused


@pytest.mark.parametrize("call", ["update", "add_many", "contains_many"])
@pytest.mark.parametrize("make", [numpy.arange, lambda n: list(range(n)), range])
def test_other_threads_run_during_a_batch(call, make):
    sys.setswitchinterval(1000)  # only who lets the GIL go makes others run
    f, keys = tamis.Bloom(10**6, 1e-6), make(10**6)
    running, counted = True, 0

    def count():
        nonlocal counted
        while running:
            counted += 1
            time.sleep(0)

    def batch():
        nonlocal running
        try:
            before = counted
            getattr(f, call)(keys)
            assert counted > before
        finally:
            running = False

    run(count, batch)


# ---- the ticker ----


class Sleeps:
    """In place of a ticker's event: the time that its thread sleeps, with what happens meanwhile."""

    def __init__(self, ticks, sleep):
        self.ticks, self.sleep = ticks, sleep

    def wait(self, seconds):
        self.ticks -= 1
        return self.ticks < 0 or bool(self.sleep(seconds))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shared", [False, True])
def test_ticker_remembers_each_key_for_its_time(tmp_path, seed, shared):
    """By clocks and timers that are late, very late, stopped, and wrong; of a shared filter by two tickers."""
    dice, window, seconds = random.Random(seed), random.Random(seed).choice([1, 3, 12]), 300
    f = tamis.shared(tmp_path / "w", 20000, 1e-6, window=window) if shared else tamis.Bloom(20000, 1e-6, window=window)
    now, added = 0.0, {}

    def pass_time(time):
        nonlocal now
        for part in sorted(dice.uniform(0, time) for _ in range(5)) + [time]:
            key = len(added)
            added[key] = now + part
            f.add(key)
        now += time

    def check(*_):
        lost = [now - at for key, at in added.items() if now - at < window * seconds and key not in f]
        assert not lost, f"forgotten after {min(lost)} s"
        return False

    def late():
        return dice.choice([0, 0, 1, 60, 7200])

    tickers = [tamis.Ticker(f, seconds), tamis.Ticker(tamis.shared(f.path) if shared else f, seconds)][:1 + shared]
    if shared:  # each wakes by its own time
        wakes = [ticker._look() or dice.uniform(0, seconds) for ticker in tickers]
        for _ in range(200):
            who = wakes.index(min(wakes))
            pass_time(max(wakes[who] + late() - now, 0))
            tickers[who]._tick()
            check()
            wakes[who] = now + seconds
    else:
        tickers[0]._ended = Sleeps(100, lambda seconds: pass_time(seconds + late()) or check())
        tickers[0]._run()
    for _ in range(window + 2):  # and not for ever; the first tick may only look
        tickers[0]._tick()
    assert not any(key in f for key in added)


def test_ticker_forgets():
    f = tamis.Bloom(1000, 1e-6, window=1)
    f.add("a")
    with tamis.Ticker(f, seconds=0.02) as ticker:
        assert ticker.filter is f
        while "a" in f:
            time.sleep(0.001)
    assert not any(thread.name == "tamis.Ticker" for thread in threading.enumerate())
    f.add("b")
    time.sleep(0.1)
    assert "b" in f


def test_ticker_is_told_nonsense():
    f = tamis.Bloom(9, window=1)
    for bad in 0, -1, float("inf"), float("nan"):
        with pytest.raises(ValueError):
            tamis.Ticker(f, bad)
    with pytest.raises(TypeError):
        tamis.Ticker(f, "x")
    with pytest.raises(ValueError, match="no window"):
        tamis.Ticker(tamis.Bloom(9), 1)
    ticker = tamis.Ticker(f, 100)
    ticker.stop()
    with pytest.raises(RuntimeError):
        ticker.start()  # it would end no period
    ticker = tamis.Ticker(f, 100).start()
    with pytest.raises(RuntimeError):
        ticker.start()
    ticker.stop(), ticker.stop()


def test_exit_with_a_ticker_and_a_batch(spawned):
    """The interpreter ends while threads are in the library."""
    spawned("""
import threading, tamis
f = tamis.Bloom(10**6, window=2)
tamis.Ticker(f, 0.001).start()
for _ in range(2):
    threading.Thread(target=lambda: [f.update(list(range(100000))) for _ in range(1000)], daemon=True).start()
import time
time.sleep(0.3)
""")
