# SPDX-License-Identifier: MIT
"""tamis.Once against a model: threads x processes x periods x clocks, at random; and killed at each line."""
import collections
import concurrent.futures
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import threading

import pytest
import tamis
import tamis._once
from together import forked, kill_at_line

fork = multiprocessing.get_context("fork")
PERIODS, SECONDS, IDS, THREADS, WORKERS = 4, 10, 25, 3, 3


def serve(make, pipe):
    """A worker: does what it is told, each command in the thread that it names, by the clock that it brings."""
    now, lock = [0.0], threading.Lock()
    tamis._once.time = type("Time", (), {"time": lambda: now[0], "monotonic": __import__("time").monotonic,
                                         "sleep": __import__("time").sleep})
    once, claims = make(), {}
    threads = [concurrent.futures.ThreadPoolExecutor(1) for _ in range(THREADS)]

    def claim(id, timeout):
        made = once.claim(id, timeout)
        first = made.__enter__()
        claims[id] = made
        return first

    def end(id, error):
        claims.pop(id).__exit__(error, error, None)

    def do(thread, call, *arguments):
        try:
            answer = {"claim": claim, "end": end, "in": lambda id: id in once}[call](*arguments)
        except Exception as error:
            answer = type(error).__name__
        with lock:
            pipe.send((thread, answer))

    while True:
        clock, thread, *command = pipe.recv()
        now[0] = clock
        threads[thread].submit(do, thread, *command)


class Worker:
    def __init__(self, make):
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=serve, args=(make, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.clock, self.claims, self.waits = 0, {}, {}  # ids by thread
        self.found_full = None


class Model:
    """What must be true.  A period is that of the latest clock that any call has looked at."""

    def __init__(self, dice, path):
        self.dice, capacity = dice, dice.choice([10, 1000])
        self.capacity, self.clock, self.period = capacity, 1000.0 * SECONDS, 0
        self.stamps, self.times = {}, {}  # of ids that are recorded: the period, and the clock that was read
        options = dict(capacity=capacity, remember=PERIODS * SECONDS, periods=PERIODS)
        inherited = tamis.Once(path, **options)  # by some of the workers
        self.make = lambda: inherited if dice.random() < 0.5 else tamis.Once(path, **options)
        self.workers = [Worker(self.make) for _ in range(WORKERS)]
        self.counts = collections.Counter()

    def tell(self, worker, thread, *command):
        # Each process has a clock of its own: that of the others, or one that is behind or has stopped.
        worker.clock = self.dice.choice([self.clock, self.clock, worker.clock, self.clock - self.dice.randrange(3 * SECONDS)])
        worker.pipe.send((worker.clock, thread, *command))

    def answer(self, *workers):
        """The next answer of any of them: the worker, its thread, and what it says."""
        ready = multiprocessing.connection.wait({worker.pipe for worker in workers}, 60)
        assert ready, "no answer"
        worker = next(worker for worker in workers if worker.pipe is ready[0])
        return worker, *worker.pipe.recv()

    def look(self, worker):
        self.period = max(self.period, int(worker.clock // SECONDS))

    def is_remembered(self, id):
        return id in self.stamps and self.period - self.stamps[id] <= PERIODS

    def check_claimed(self, worker, thread, id, first):
        self.look(worker)
        remembered = self.is_remembered(id)
        if id in self.times and self.period * SECONDS < self.times[id] + PERIODS * SECONDS:
            assert first is False, f"{id} is forgotten {self.period * SECONDS - self.times[id]} s after its work"
        if first == "FullError":
            assert not remembered and worker.found_full == self.period
            return
        assert first is not remembered, f"{id}: {first}, stamped {self.stamps.get(id)} in {self.period}"
        worker.claims[thread] = id, first
        self.counts[first] += 1

    def claim(self):
        worker, thread, id = self.dice.choice(self.workers), self.dice.randrange(THREADS), self.dice.randrange(IDS)
        if thread in worker.waits:
            return
        if thread in worker.claims:  # within a claim: of the same id, or of another one that nobody waits for
            id = self.dice.choice([worker.claims[thread][0], id])
        holders = [(w, t) for w in self.workers for t, (held, _) in w.claims.items() if held == id]
        waits = holders and holders[0] != (worker, thread) and thread not in worker.claims and self.dice.random() < 0.5
        self.tell(worker, thread, "claim", id, None if waits else self.dice.choice([0, 0.001]))
        if waits:
            worker.waits[thread] = id
            return
        _, _, said = self.answer(worker)
        if holders == [(worker, thread)]:
            assert said == "RuntimeError"
        elif holders:
            assert said == "TimeoutError"
        elif thread in worker.claims:
            self.check_nested(worker, thread, id, said)
        else:
            self.check_claimed(worker, thread, id, said)

    def check_nested(self, worker, thread, id, said):
        if said not in (True, False):
            return self.check_claimed(worker, thread, id, said)
        outer = worker.claims[thread]
        self.check_claimed(worker, thread, id, said)
        self.end(worker, thread, is_done=False)
        worker.claims[thread] = outer

    def end(self, worker=None, thread=None, is_done=None):
        if worker is None:
            claims = [(w, t) for w in self.workers for t in w.claims if t not in w.waits]
            if not claims:
                return
            worker, thread = self.dice.choice(claims)
            is_done = self.dice.random() < 0.8
        id, first = worker.claims.pop(thread)
        self.tell(worker, thread, "end", id, None if is_done else ValueError)
        waiting, said = self.waiting({id}), None
        while said is None:  # a waiter may be through before
            who, by, what = self.answer(worker, *waiting)
            if (who, by) == (worker, thread):
                said = (what,)
                self.check_ended(worker, id, first and is_done, what)
            else:
                self.woken = who, by, what
        self.release({id})

    def check_ended(self, worker, id, is_recorded, said):
        if not is_recorded:
            assert said is None
            return
        self.look(worker)
        if said == "FullError":
            assert sum(self.is_remembered(one) for one in range(IDS)) >= self.capacity
            worker.found_full = self.period
        else:
            assert said is None, said
            self.stamps[id], self.times[id] = self.period, worker.clock

    woken = None

    def waiting(self, ids):
        return [worker for worker in self.workers if ids & set(worker.waits.values())]

    def release(self, ids):
        """Of those who wait for each id, if there are any, one gets it."""
        while waiting := self.waiting(ids):
            worker, thread, first = self.woken or self.answer(*waiting)
            self.woken, id = None, worker.waits.pop(thread)
            assert id in ids
            self.check_claimed(worker, thread, id, first)
            if first != "FullError":
                ids = ids - {id}

    def ask(self):
        worker, id = self.dice.choice(self.workers), self.dice.randrange(IDS)
        thread = self.dice.choice([t for t in range(THREADS) if t not in worker.waits] or [None])
        if thread is not None:
            self.tell(worker, thread, "in", id)
            said = self.answer(worker)[2]
            self.look(worker)
            assert said is self.is_remembered(id)

    def kill(self):
        at = self.dice.randrange(WORKERS)
        worker = self.workers[at]
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        self.workers[at] = Worker(self.make)
        self.release({id for id, _ in worker.claims.values()})

    def tick(self):
        self.clock += self.dice.choice([0.1, 1, 1, SECONDS, 3 * SECONDS, (PERIODS + 1) * SECONDS, 100 * SECONDS, -SECONDS])

    def run(self, steps):
        for _ in range(steps):
            self.dice.choices([self.claim, self.end, self.ask, self.tick, self.kill], [10, 8, 3, 2, 0.5])[0]()
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()
        assert self.counts[True] and self.counts[False]


@pytest.mark.parametrize("seed", range(4))
def test_random_claims(tmp_path, seed):
    Model(random.Random(seed), tmp_path / "done").run(int(os.environ.get("TAMIS_LONG") or 1) * 300)


def test_full_and_then_a_new_period(tmp_path, monkeypatch):
    now = [1e9]
    monkeypatch.setattr("time.time", lambda: now[0])
    once = tamis.Once(tmp_path / "done", 50, remember=40, periods=4)

    def work(ids):
        """Which of them were worked, and how many of these were not recorded."""
        worked, lost = set(), 0
        for id in ids:
            try:
                with once.claim(id) as first:
                    worked |= {id} if first else set()
            except tamis.FullError:
                lost += id in worked
        return worked, lost

    for turn in range(30):
        worked, lost = work(range(1000 * turn, 1000 * turn + 400))
        assert lost == 1 and 50 <= len(worked) < 400 and not work(worked)[0]
        now[0] += 9.9  # within the window nothing is forgotten
        assert not work(sorted(worked)[:50])[0] - {max(worked)}
        now[0] += random.Random(turn).choice([41, 50, 1000])
        recorded = sorted(worked)[:-1]
        assert not any(id in once for id in recorded)


def test_a_clock_that_was_wrong_once(tmp_path, monkeypatch):
    """The exception names the cause, and the way out loses nothing."""
    now = [1e9]
    monkeypatch.setattr("time.time", lambda: now[0])
    once = tamis.Once(tmp_path / "done", 50, remember=40, periods=4)
    now[0] = 4e9
    assert "x" not in once
    now[0] = 1e9
    recorded = []
    with pytest.raises(tamis.FullError) as raised:
        for id in range(1000):
            try:
                with once.claim(id) as first:
                    assert first
                recorded.append(id)
            except tamis.FullError as error:
                if "set_period" in str(error):
                    raise
    assert "done.set_period(100000000)" in str(raised.value) and once.done.stats().period == 4 * 10**8
    once.done.set_period(10**8)
    assert all(id in once for id in recorded)
    now[0] += 39
    assert all(id in once for id in recorded)
    now[0] += 11
    assert not any(id in once for id in recorded)
    with once.claim("new") as first:
        assert first


def test_killed_at_each_line(tmp_path):
    """What was worked is recorded, or worked again; it is recorded only after the work, and no claim stays."""
    killed_after = collections.Counter()

    def work(number, path, effects):
        kill_at_line(number, tamis._once.__file__)
        once, out = tamis.Once(path, 100, remember=1000), os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for id in "a", "b", "a":
            with once.claim(id) as first:
                if first:
                    os.write(out, id.encode())

    for number in range(1, 1000):
        path, effects = tmp_path / f"done {number}", tmp_path / f"effects {number}"
        status = forked(lambda: work(number, path, effects))
        assert status in (0, -signal.SIGKILL)
        worked = effects.read_text() if effects.exists() else ""
        assert worked in ("", "a", "ab")
        again = ""
        with tamis.Once(path, 100, remember=1000) as once:
            for id in "ab":
                with once.claim(id, timeout=0) as first:
                    again += id if first else ""
        assert set(worked + again) == {"a", "b"} and len(worked + again) <= (3 if status else 2)
        killed_after[worked, again] += 1
        if status == 0:
            break
    assert number > 50 and {("", "ab"), ("a", "b"), ("a", "ab"), ("ab", "b"), ("ab", "")} == killed_after.keys()
