#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""One filter for all workers of a machine: four of nginx and four of gunicorn, two runs of `tamis dedup`, and a
program with four threads.  Each token is sent to three of these at once, while workers are killed at random by
kill -9; those who have started them start new ones.  Prints what all were told.

    workers.py --programs BUILD [--tokens N] [--kills-a-second N]

script/demo-workers builds what is needed.
"""
import argparse
import concurrent.futures
import http.client
import itertools
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
import server  # noqa: E402
from loopback import Process, answers, end_with_parent, free_port, supervised  # noqa: E402

RATE = "1e-9"  # so that no token is hidden by a false positive
CHUNK = 4000  # tokens that are sent to three at once
LEGEND = """
unanswered       the worker was killed before it had answered: nobody knows whether it had added the token
acknowledged     somebody has answered for the token, whatever he said
without winner   whoever added the token was killed before it could say so"""


# ---- who gets tokens ----
#
# Each has tell(tokens), which returns a number for each token, how often it was new, or None if the token is
# unanswered; and victims(), the processes that may be killed.


class NginxWorkers:
    """The workers of nginx, on a connection of this one's own."""
    BATCH = 100

    def __init__(self, nginx):
        self.nginx, self.connection = nginx, None

    def tell(self, tokens):
        told = []
        for start in range(0, len(tokens), self.BATCH):
            part = tokens[start : start + self.BATCH]
            try:
                self.connection = self.connection or self.nginx.connect()
                self.connection.send(b"".join(server.request(f"/?token={token}") for token in part))
                got = self.connection.receive(rb"\r\n\r\n([01])", len(part))
            except OSError:
                got = []
            told += [int(answer) for answer in got] + [None] * (len(part) - len(got))
            if len(got) < len(part):
                self.connection = None
        return told

    def victims(self):
        return self.nginx.all_workers()


class GunicornWorkers:
    BATCH = 500

    def __init__(self, process, port):
        self.process, self.port = process, port

    def tell(self, tokens):
        told = []
        for start in range(0, len(tokens), self.BATCH):
            part = tokens[start : start + self.BATCH]
            try:
                connection = http.client.HTTPConnection(server.HOST, self.port, timeout=60)
                connection.request("POST", "/", "\n".join(part))
                answer = connection.getresponse()
                got, status = answer.read(), answer.status
                connection.close()
            except (OSError, http.client.HTTPException):
                got, status = b"", 200
            if status != 200:
                raise AssertionError(f"gunicorn: {got}")
            told += [digit - 48 for digit in got] if len(got) == len(part) else [None] * len(part)
        return told

    def victims(self):
        workers = server.children(self.process.process.pid)
        return workers if len(workers) == 4 else []  # a new one takes a while to begin


class Program:
    """A program that gets tokens on its standard input, and is started for each chunk of them."""

    def __init__(self, *command, **environment):
        self.command, self.environment, self.running = command, {**os.environ, **environment}, None

    def tell(self, tokens):
        self.running = process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.PIPE,
                                                  stdout=subprocess.PIPE, preexec_fn=end_with_parent)
        try:
            said = process.communicate("".join(f"{token}\n" for token in tokens).encode())[0].decode()
        except BrokenPipeError:
            said = ""
        self.running = None
        if process.returncode > 0:
            raise AssertionError(f"{self.command} failed")
        return self.told(tokens, said, process.returncode == 0)

    def victims(self):
        running = self.running
        return [running.pid] if running else []


class Dedup(Program):
    """It writes the lines that are new."""

    def told(self, tokens, said, ended):
        new = set(said.split("\n"))
        return [1 if token in new else 0 if ended else None for token in tokens]


class Threads(Program):
    def told(self, tokens, said, ended):
        return [int(digit) for digit in said] if ended else [None] * len(tokens)


# ---- the killer ----


class Killer(threading.Thread):
    def __init__(self, groups, pause):
        super().__init__(daemon=True)
        self.groups, self.pause = groups, pause
        self.ends = threading.Event()
        self.killed = dict.fromkeys(groups, 0)

    def run(self):
        while not self.ends.wait(random.expovariate(1 / self.pause)):
            name = random.choice(list(self.groups))
            victims = [pid for member in self.groups[name] for pid in member.victims()]
            try:
                os.kill(random.choice(victims), signal.SIGKILL)
                self.killed[name] += 1
            except (IndexError, ProcessLookupError):
                pass


# ---- the demonstration ----


def bytes_in_a_manager(tokens):
    """What a token takes in a dict of Python's multiprocessing.Manager."""
    def resident(pid):
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with multiprocessing.Manager() as manager:
        seen = manager.dict()
        pid, = [child.pid for child in multiprocessing.active_children()]
        before = resident(pid)
        for start in range(0, len(tokens), 10000):
            seen.update(dict.fromkeys(tokens[start : start + 10000], True))
        return (resident(pid) - before) / len(tokens)


def main(folder, args):
    programs = pathlib.Path(args.programs).resolve()
    tool = programs / "tools" / "tamis"
    context = server.Context(folder, argparse.Namespace(module=programs / "nginx" / "ngx_http_tamis_module.so", tool=tool))
    nginx = context.start(f"tamis_filter tokens tokens key=$arg_token capacity={args.tokens} fpp={RATE};",
                          "location / { return 200 $tamis_first_tokens; }")
    file, port = nginx.path("tokens"), free_port()
    names = {"TAMIS_FILE": str(file), "TAMIS_LIBRARY": str(programs / "libtamis.so")}
    gunicorn = Process(["gunicorn", "--workers", "4", "--bind", f"{server.HOST}:{port}", "--chdir", HERE, "app"],
                       folder / "gunicorn", **names).start()
    gunicorn.wait_for(lambda: answers(port))
    dedup = [tool, "dedup", "--quiet", "--shared", file]
    everybody = {
        "nginx": [NginxWorkers(nginx), NginxWorkers(nginx)],
        "gunicorn": [GunicornWorkers(gunicorn, port)],
        "tamis dedup": [Dedup(*dedup), Dedup(*dedup)],
        "four threads": [Threads(sys.executable, HERE / "app.py", **names)],
    }
    tokens = [f"{random.getrandbits(64):016x}" for _ in range(args.tokens)]
    won, acknowledged, unanswered = bytearray(len(tokens)), bytearray(len(tokens)), bytearray(len(tokens))
    requests = 0
    threes = itertools.cycle(itertools.combinations([member for group in everybody.values() for member in group], 3))
    killer = Killer(everybody, 1 / args.kills_a_second)
    print(f"sending {len(tokens)} tokens ...", file=sys.stderr)
    begin = time.monotonic()
    killer.start()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for start, three in zip(range(0, len(tokens), CHUNK), threes):
            chunk = tokens[start : start + CHUNK]
            for told in pool.map(lambda member: member.tell(chunk), three):
                for i, times in enumerate(told, start):
                    if times is None:
                        unanswered[i] += 1
                    else:
                        acknowledged[i] = 1
                        won[i] += times
                        requests += 1
    killer.ends.set()
    killer.join()
    seconds = time.monotonic() - begin
    (folder / "all").write_text("\n".join(tokens))
    there = set(subprocess.run([tool, "query", file, folder / "all"], stdout=subprocess.PIPE,
                               check=True).stdout.decode().split("\n"))
    missing = sum(a and token not in there for token, a in zip(tokens, acknowledged))
    nobody = sum(not times and not silent for times, silent in zip(won, unanswered))
    twice = sum(times > 1 for times in won)
    rows = [
        ("tokens, each sent to three at once", len(tokens)),
        ("answers", requests),
        ("answers a second", round(requests / seconds)),
        *[(f"killed by -9: {name}", count) for name, count in killer.killed.items()],
        ("unanswered", sum(unanswered)),
        ("winners", sum(won)),
        ("tokens with two winners", twice),
        ("tokens without winner, one of three unanswered", sum(not times for times in won) - nobody),
        ("tokens without winner, all three answered", nobody),
        ("acknowledged tokens", sum(acknowledged)),
        ("acknowledged tokens that are missing", missing),
        (f"bytes a token: the filter, at {RATE}", f"{512 * file.stat().st_blocks / len(tokens):.1f}"),
        ("bytes a token: a dict of multiprocessing.Manager", round(bytes_in_a_manager(tokens[:200000]))),
        ("bytes a token: an entry of limit_req_zone of nginx", "64 or 128"),
    ]
    width = max(len(label) for label, _ in rows)
    print("\n" + "\n".join(f"{label:{width}}  {value:>10}" for label, value in rows) + "\n" + LEGEND)
    good = not twice and not missing and not nobody and any(killer.killed.values())
    print("\n" + ("one winner for each token, and nothing that was acknowledged is lost" if good else "BAD: see the table"))
    nginx.stop()
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, help="the folder in which everything was built")
    parser.add_argument("--tokens", type=int, default=1000000)
    parser.add_argument("--kills-a-second", type=float, default=20)
    arguments = parser.parse_args()
    if not shutil.which("gunicorn"):
        sys.exit("gunicorn is missing: script/demo-workers installs it")
    supervised(lambda folder: main(folder, arguments))
