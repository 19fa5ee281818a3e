# SPDX-License-Identifier: MIT
"""Programs that a test starts on loopback, and that end with it, however it ends.

supervised(main) runs main(folder) in a process of its own, and supervise() goes on in one.  When that process
has ended (it returned, it failed, it was killed), all processes that it has left are killed, also those that have
made themselves daemons, and the folder is removed.
"""
import argparse
import ctypes
import mmap
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

SKIPPED = 77  # what CTest takes for "skipped"
HOST = "127.0.0.1"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)


_reservations = []


def free_port():
    """A port that no other test gets while this process lives, also while no server listens there: a socket with
    the port in its name, in the same network namespace, reserves it.  Clients connect from higher ports."""
    for port in random.SystemRandom().sample(range(20000, 32768), 1000):
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0tamis port {port}")
            with socket.socket() as s:
                s.bind((HOST, port))
            _reservations.append(reservation)
            return port
        except OSError:
            reservation.close()
    raise OSError("no free port")


def end_with_parent():
    """For preexec_fn: the process is killed when its parent ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_until(condition, what, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


class Clock:
    """The time of day, in milliseconds, that programs see for which redis/tests/set_clock.c is preloaded with
    `environment`.  It stands still until it is set."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "clock"
        self.path.write_bytes(bytes(8))
        self.environment = {"TAMIS_CLOCK": str(self.path)}
        with open(self.path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 8)
        self.set(1_700_000_000_000)

    def set(self, now):
        self.now = now
        self.bytes[:] = (now * 1000).to_bytes(8, "little", signed=True)


class Process:
    """A program that runs in a folder.  What it prints is appended to the file `out` there."""

    def __init__(self, command, folder, **environment):
        self.command = [str(word) for word in command]
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # where Debian has servers
        self.environment = {**os.environ, "PATH": path, **environment}
        self.process = None

    def start(self):
        with open(self.folder / "out", "ab") as out:
            self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdout=out,
                                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                            preexec_fn=end_with_parent)
        return self

    def wait_for(self, ready, seconds=120):
        """Waits until ready() is true; False if the program ended first, as it does if its port is taken."""
        until = time.monotonic() + seconds
        while self.alive():
            try:
                if ready():
                    return True
            except OSError:
                pass
            if time.monotonic() > until:
                raise AssertionError(f"{self.command[0]} is not ready: {self.log()[-2000:]}")
            time.sleep(0.02)
        return False

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        return (self.folder / "out").read_text(errors="replace")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=120):
        """The exit status."""
        return self.process.wait(seconds)

    def kill(self):
        """kill -9."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def end(self, seconds=120):
        """SIGTERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)


def answers(port, host=HOST):
    """Whether somebody accepts connections there."""
    with socket.create_connection((host, port), 1):
        return True


def _children():
    """The children of this process.  Those of a process that ended have become its own."""
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(path.parent.name)
        except OSError:
            pass


def _kill_children():
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _supervise(child, folder):
    """Passes signals on to the child, waits for it, and then clears what it has left."""

    def pass_on(number, _):
        try:
            os.kill(child, number)
        except ProcessLookupError:
            pass

    for number in _SIGNALS:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    _, status = os.waitpid(child, 0)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _kill_children()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def supervise():
    """Goes on in a process of its own, and returns the folder for temporary files, which is removed after it.

    There are two supervisors, so that one is left if the other is killed by -9.
    """
    folder = tempfile.tempdir = tempfile.mkdtemp(prefix="tamis-example.")
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    for death in (signal.SIGTERM, signal.SIGKILL):
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        parent = os.getpid()
        child = os.fork()
        if child:
            _supervise(child, folder)
        _libc.prctl(PR_SET_PDEATHSIG, death)
        if os.getppid() != parent:
            os._exit(1)
        if death == signal.SIGTERM:
            os.setsid()  # what is sent to the group of the first one does not reach the others
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    return pathlib.Path(folder)


def supervised(main):
    """Ends with the exit status that main(folder) returns, a bool or a number."""
    folder, status = supervise(), 1
    try:
        result = main(folder)
        status = int(not result) if isinstance(result, bool) else result
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def scenario(main, **numbers):
    """Runs main(folder, options), supervised.  The command line has --programs, --seed, and these numbers, with their
    defaults; the second part of the program's docstring says so."""
    parser = argparse.ArgumentParser(usage=sys.modules["__main__"].__doc__.split("\n\n")[1].strip())
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    for name, default in {**numbers, "seed": random.randrange(10**6)}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    supervised(lambda folder: main(folder, options))


def finish(session, exitstatus):
    """pytest's hook pytest_sessionfinish, for CTest: tests that are all skipped are no success."""
    stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if exitstatus == 0 and "passed" not in stats:
        session.exitstatus = SKIPPED
