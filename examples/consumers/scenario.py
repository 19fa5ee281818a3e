#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Real consumers of a real RabbitMQ: messages come several times, consumers are killed at random moments by
kill -9, and so is the broker.  Every work is counted, and the table compares the counts with the promises of
README.md.

    scenario.py --programs FOLDER [--short | --messages N] [--minutes M] [--seed N]

TAMIS_TEST=case_NAME runs one function of cases.py, and nothing else.
"""
import argparse
import concurrent.futures
import math
import os
import pathlib
import random
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests/support")]

import cases  # noqa: E402
import rabbitmq  # noqa: E402
from loopback import SKIPPED, supervised, wait_until  # noqa: E402
from parts import Consumer, Publisher, repeats, result  # noqa: E402

QUEUES = 2
THREADS = 8


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="where consume and publish are")
    parser.add_argument("--short", action="store_true", help="a shortened form, for the suite")
    parser.add_argument("--messages", type=int, help="distinct messages (1000000; short: 10000)")
    parser.add_argument("--minutes", type=float, help="how long the messages are made to last")
    parser.add_argument("--rate", type=float, help="false positives of the window (1e-4; short: 1e-6)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of all that is random")
    parser.add_argument("--cases-only", action="store_true", help="only the situations of cases.py")
    parser.add_argument("--no-cases", action="store_true", help="only what is killed at random")
    return parser.parse_args()


# ---- situations that are made on purpose ----


def run_case(node, programs, folder, name, function):
    begin = time.monotonic()
    try:
        function(cases.Setting(node, programs, folder / name, name))
        failure = None
    except Exception:
        failure = traceback.format_exc()
    return name, failure, time.monotonic() - begin


def run_cases(node, programs, folder, wanted):
    functions = {name: function for name, function in vars(cases).items()
                 if name.startswith("case_") and wanted in (None, name)}
    ok = True
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        jobs = [threads.submit(run_case, node, programs, folder, *item) for item in functions.items()]
        for job in jobs:
            name, failure, seconds = job.result()
            ok = ok and failure is None
            print(f"{'FAILED' if failure else 'ok'}: {name[5:]} ({seconds:.1f} s)", flush=True)
            if failure:
                print(failure, flush=True)
    return ok


# ---- killed at random ----


def poisson_quantile(mean, tail):
    """The number that a Poisson variable exceeds with a probability below `tail`."""
    n, term = 0, math.exp(-mean)
    left = 1 - term
    while left >= tail:
        n += 1
        term *= mean / n
        left -= term
    return n


class Ordeal:
    def __init__(self, node, programs, folder, args):
        folder.mkdir()
        self.node = node
        self.random = random.Random(args.seed)
        self.messages = args.messages or (10000 if args.short else 1000000)
        self.rate = args.rate or (1e-6 if args.short else 1e-4)
        self.copies = 0.3
        seconds = args.minutes * 60 if args.minutes else 9 if args.short else None
        self.limit = [] if seconds is None else ["--rate", self.messages * (1 + self.copies) / seconds]
        # So that at any time a few messages are being worked for long.
        self.slow = ["--slow-every", 100 if args.short else 1000, "--slow-ms", 300]
        self.broker_every = 6 if args.short else 45  # seconds
        self.pause = (0.3, 2) if args.short else (0.5, 5)
        options = ["--threads", THREADS, "--prefetch", 128, "--capacity", max(1000, self.messages // QUEUES),
                   "--rate", self.rate, "--save-every", 0.5 if args.short else 2, "--patience", 300]
        self.consumers = [Consumer(programs, folder / f"consumer{i}", node.url(), f"work.{i}", *options)
                          for i in range(QUEUES)]
        self.publisher = Publisher(programs, folder / "publish", node.url(), "work", QUEUES)
        self.seed = args.seed
        self.killed = self.broker_killed = 0
        self.again = self.connections = 0

    def run(self):
        for consumer in self.consumers:
            consumer.start()
        publishing = self.publisher.start("-n", self.messages, "--copies", self.copies, "--seed", self.seed,
                                          "--distance", self.messages // 10, "--patience", 300, *self.slow,
                                          *self.limit)
        self.kill_at_random(publishing)
        assert publishing.wait() == 0, publishing.log()
        self.published = result(publishing)
        for consumer in self.consumers:
            consumer.restart()
            self.killed += 1
        self.drain()

    def kill_at_random(self, publishing):
        next_broker = time.monotonic() + self.broker_every * self.random.uniform(0.7, 1)
        while publishing.alive():
            time.sleep(self.random.uniform(*self.pause))
            if time.monotonic() >= next_broker:
                self.node.kill()
                self.broker_killed += 1
                self.node.start()
                next_broker = time.monotonic() + self.broker_every * self.random.uniform(0.7, 1.3)
            consumer = self.random.choice(self.consumers)
            consumer.kill()
            self.killed += 1
            time.sleep(self.random.uniform(0, 0.3))
            consumer.start()

    def drain(self):
        """Until no message is left, in the queues or in hand."""
        def empty():
            return self.publisher.depth() == 0 and all(c.metric("in_hand") == 0 for c in self.consumers)
        wait_until(empty, "the queues are empty", 600)
        for consumer in self.consumers:
            status = consumer.end()
            assert status == 0, f"exit status {status}\n{consumer.process.log()[-3000:]}"
        left = self.publisher.depth()
        assert left == 0, f"{left} messages are left"
        unfinished = [path for c in self.consumers for path in c.window.parent.glob("*.tamis-*")]
        assert not unfinished, f"{unfinished} are left of saves that were killed"

    def count(self):
        counts = [repeats(consumer) for consumer in self.consumers]
        distinct = len({work.id for consumer in self.consumers for work in consumer.works()})
        lost = self.messages - distinct
        most = poisson_quantile(self.messages * self.rate, 1e-4)
        strange = sum(consumer.process.log().count("PRECONDITION_FAILED") for consumer in self.consumers)
        twice, saved, clean, again, bound = (sum(column) for column in zip(*counts))
        return [
            ("lost: taken for done, although they were not", lost, most),
            ("worked twice by one process", twice, 0),
            ("worked again after a clean end", clean, 0),
            ("worked again after kill -9, held by the last save", saved, 0),
            ("worked again after kill -9, not held by it", again, bound),
            ("acknowledgements that the broker did not know", strange, 0)]

    def table(self):
        p = self.published
        works = sum(len(consumer.works()) for consumer in self.consumers)
        print(f"\n{p['messages']:.0f} messages, {p['copies']:.0f} copies of them, and {p['again']:.0f} sent again "
              f"as the broker had not confirmed them; {works} works in {p['seconds']:.0f} s\n"
              f"{self.killed} times a consumer was killed by kill -9, {self.broker_killed} times the broker; "
              f"seed {self.seed}\n")
        print(f"{'':55}{'counted':>9}{'at most':>9}")
        ok = True
        for what, counted, most in self.count():
            ok = ok and 0 <= counted <= most
            print(f"{what:55}{counted:9d}{most:9d}{'' if 0 <= counted <= most else '   BROKEN PROMISE'}")
        return ok


def main(args, folder):
    wanted = os.environ.get("TAMIS_TEST")
    node = rabbitmq.Node(folder / "node")
    begin = time.monotonic()
    node.start()
    print(f"RabbitMQ started in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    programs = args.programs.resolve()
    ok = args.no_cases or run_cases(node, programs, folder / "cases", wanted)
    if wanted or args.cases_only:
        return ok
    ordeal = Ordeal(node, programs, folder / "ordeal", args)
    try:
        ordeal.run()
    except AssertionError:
        for consumer in ordeal.consumers:
            print(consumer.process.log()[-5000:], file=sys.stderr)
        raise
    return ordeal.table() and ok


if __name__ == "__main__":
    options = arguments()
    if rabbitmq.program() is None:
        print("skipped: RabbitMQ is not installed")
        sys.exit(SKIPPED)
    supervised(lambda folder: main(options, folder))
