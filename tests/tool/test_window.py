#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Windows of `tamis dedup` by a clock of the test's own: test_window.py PATH-TO-TAMIS

The promise: a line is dropped for G periods of the clock after it was last written, and is written again when
G + 1 have ended, however late, stopped, backward or wrong clocks and processes are."""
import mmap
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile

TAMIS = pathlib.Path(sys.argv[1]).resolve()
CLOCK = TAMIS.with_name("tamis-clock.so")
PERIOD = 10
START = 1_700_000_005  # within a period
RATE = ["--fpp=1e-6", "--capacity=20k"]
checks = failures = 0


def check(name, good):
    global checks, failures
    checks += 1
    failures += not good
    print(f"{'ok' if good else 'not ok'} {checks} - {name}", flush=True)


class Clock:
    def __init__(self):
        with open("clock", "wb") as file:
            file.write(bytes(8))
        with open("clock", "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 8)
        self.set(START)

    def set(self, seconds):
        self.seconds = seconds
        self.memory[:] = struct.pack("<q", int(seconds * 1_000_000))

    def period(self):
        return int(self.seconds // PERIOD)


def environment():
    return {**os.environ, "LD_PRELOAD": str(CLOCK), "TAMIS_CLOCK": os.path.abspath("clock")}


def tamis(*arguments, lines=()):
    """A whole run, with its result."""
    return subprocess.run([TAMIS, *map(str, arguments)], input="".join(f"{line}\n" for line in lines),
                          capture_output=True, text=True, env=environment(), timeout=60)


class Run:
    """A run of dedup that is asked for one line after the other."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([TAMIS, "dedup", *map(str, arguments)], env=environment(), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1)
        self.asked = 0

    def send(self, line):
        self.asked += 1
        self.process.stdin.write(f"{line}\nend of {id(self)} {self.asked}\n")

    def writes(self, line):
        """Whether it writes the line."""
        self.send(line)
        return self.answer()

    def answer(self):
        end = f"end of {id(self)} {self.asked}\n"
        written = 0
        while (line := self.process.stdout.readline()) != end:
            if not line:
                return None
            written += 1
        return written == 1

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class Model:
    """What a window knows: the period in which each line was written last, by a clock that has not been set back."""

    def __init__(self, window):
        self.window, self.running, self.last = window, 0, {}

    def writes(self, line, period):
        self.running = max(self.running, period)
        new = self.running > self.last.get(line, -1000) + self.window
        if new:
            self.last[line] = self.running
        return new


def walk(seed, window, shared):
    """Steps by chance: lines that come again, time that passes, jumps, a clock that is set back, processes that are
    stopped while it goes on."""
    chance, clock, model = random.Random(seed), Clock(), Model(window)
    where = ["--shared", f"seen.{seed}"] if shared else []
    runs = [Run(*RATE, "-q", "--window", window, "--period", PERIOD, *where) for _ in range(2 if shared else 1)]
    wrong = [run for run in runs if not run.writes(f"begin {id(run)}")]  # it has read the clock
    for step in range(300):
        kind, run, line = chance.randrange(10), chance.choice(runs), f"line {chance.randrange(30)}"
        if kind == 0:
            clock.set(clock.seconds + chance.uniform(0, 3 * window * PERIOD))
        elif kind == 1 and shared:
            clock.set(clock.seconds - chance.uniform(0, 2 * PERIOD))
        elif kind < 5:
            clock.set(clock.seconds + chance.uniform(0, PERIOD))
        elif kind == 5:  # the line is in the pipe while the process is stopped
            run.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, run.process.pid, os.WSTOPPED)
            run.send(line)
            clock.set(clock.seconds + chance.uniform(0, 2 * window * PERIOD))
            run.process.send_signal(signal.SIGCONT)
            period = clock.period() if shared else int((clock.seconds - START) // PERIOD)
            if run.answer() != model.writes(line, period):
                wrong.append((step, line))
            continue
        period = clock.period() if shared else int((clock.seconds - START) // PERIOD)
        if run.writes(line) != model.writes(line, period):
            wrong.append((step, line))
    for run in runs:
        run.close()
    check(f"a window of {window}, {'shared' if shared else 'alone'}, by a clock that jumps{wrong[:5] or ''}", not wrong)


def saved():
    clock = Clock()
    options = RATE + ["-q", "--state", "state", "--window", 2, "--period", PERIOD]
    good = tamis("dedup", *options, lines=["old"]).stdout == "old\n"
    clock.set(START + 1000 * PERIOD)
    run = Run(*options)
    good &= run.writes("old") is False
    clock.set(clock.seconds + 2 * PERIOD)
    good &= run.writes("old") is False
    clock.set(clock.seconds + PERIOD)
    good &= run.writes("old") is True
    run.close()
    check("the time between two runs with a state does not count", good)


def built():
    clock = Clock()
    shared = ["--shared", "built", "--period", PERIOD]
    tamis("dedup", *RATE, "-q", "--window", 2, *shared, lines=["first"])
    clock.set(START + 2 * PERIOD)
    tamis("build", *shared, lines=["built"])
    clock.set(START + 4 * PERIOD)
    written = tamis("dedup", *shared, lines=["first", "built"]).stdout
    check("build remembers a line from when it came", written == "first\n")


def far():
    """The clock of one process is wrong once."""
    clock = Clock()
    shared = ["--shared", "far", "--period", PERIOD]
    tamis("dedup", "--fpp=1e-6", "--capacity=1000", "--window", 2, *shared)
    run = Run("-q", *shared)
    clock.set(3 * START)
    run.writes("a")
    clock.set(START)
    many = tamis("dedup", *shared, lines=range(5000))
    check("a period far ahead: a run says so",
          "tamis: 'far': its window is in a period that is still to come" in many.stderr)
    check("... and why it is full", "'far' is full: its window is in a period that is still to come" in many.stderr)
    info = tamis("info", "--period", PERIOD, "far").stdout
    check("... info names the period", f"\nperiod        {3 * START // PERIOD}, which begins 2131-08-" in info)
    check("... the clock, and the way out",
          f"\nclock         in period {START // PERIOD}, so nothing is forgotten; 'tamis window --help'" in info)
    check("... JSON, too", f'"period": {3 * START // PERIOD}' in tamis("info", "--json", "far").stdout)
    window = tamis("window", "--period", PERIOD, "far")
    check("window sets its number",
          window.stdout == f"period        {START // PERIOD}, was {3 * START // PERIOD}\n" and not window.stderr)
    clock.set(START + 2 * PERIOD)
    check("... and forgets nothing", tamis("dedup", *shared, lines=["a"]).stdout == "")
    clock.set(START + 3 * PERIOD)
    check("... before its time, also where a run goes on", run.writes("a") is True)
    run.close()
    again = tamis("dedup", *shared, lines=range(500))
    check("... then there is room", again.returncode == 0 and not again.stderr)


def ends():
    """Runs with one window whose lines end by themselves, after whole periods."""
    clock, lives = Clock(), {0: 0, 0.5: 1, 10: 1, 10.5: 2, 20: 2, 30: 3}
    where = ["--shared", "ends", "--period", PERIOD]
    for ttl in lives:
        tamis("dedup", *RATE, "-q", *where, "--window", 3, "--ttl", ttl, lines=[f"{ttl} {late}" for late in range(5)])
    for late in range(5):
        clock.set(START - START % PERIOD + late * PERIOD)
        written = tamis("dedup", *where, "--ttl", 0, lines=[f"{ttl} {late}" for ttl in lives]).stdout
        check(f"--ttl, {late} periods later", written == "".join(f"{ttl} {late}\n" for ttl in lives if lives[ttl] < late))
    run = Run(*RATE, "-q", "--window", 11, "--period", 0.1, "--ttl", 1.1)
    good = run.writes("line")
    clock.set(clock.seconds + 1.15)
    good &= run.writes("line") is False
    clock.set(clock.seconds + 0.1)
    check("--ttl of as many tenths as the window has", good and run.writes("line"))
    run.close()
    tamis("dedup", *RATE, "--shared", "windowless", lines=["a"])
    for arguments, text in [
            ([*where, "--ttl", 30.5], "--ttl: a window of 3 periods of 10 seconds is shorter"),
            (["--window", 2, "--ttl", 121], "--ttl: a window of 2 periods of 60 seconds is shorter"),
            (["--shared", "windowless", "--ttl", 1], "'windowless' has no window, so it has no --ttl")]:
        result = tamis("dedup", *arguments, lines=["new"])
        check(f"dedup {' '.join(map(str, arguments))}",
              result.returncode == 2 and text in result.stderr and not result.stdout)


def refused():
    tamis("dedup", *RATE, "--shared", "none", lines=["a"])
    for arguments, status, text in [
            (["none"], 1, "'none' has no window"),
            (["nowhere"], 2, "cannot share 'nowhere'"),
            (["clock"], 2, "cannot share 'clock'"),
            ([], 2, "window takes a file"),
            (["none", "none"], 2, "window takes one file"),
            (["--period", 0, "none"], 2, "--period: 0 is too short"),
            (["--period", 0.01, "none"], 2, "--period: a period has 0.1 seconds or more")]:
        result = tamis("window", *arguments)
        check(f"window {' '.join(map(str, arguments))}",
              result.returncode == status and text in result.stderr and result.stderr.count("\n") == 1)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for number, (window, shared) in enumerate([(1, False), (3, False), (12, False), (1, True), (3, True), (12, True)]):
        walk(number, window, shared)
    saved()
    built()
    far()
    ends()
    refused()
print(f"1..{checks}")
sys.exit(failures > 0)
