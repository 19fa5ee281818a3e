# SPDX-License-Identifier: MIT
"""Of all workers, one says that a request is the first one with its token; whatever happens to them.

Each token is sent on several connections at once, each of which leads to another worker.  TAMIS_LONG=1 sends more
tokens.
"""
import os
import random
import signal
import threading
import time

from server import Connection, found, request, same, wait_until

CONNECTIONS = 4
MOST = 300  # disturbances: on a busy machine few tokens are sent between two of them
BATCH = 50  # tokens that are sent before the answers are read
TOKENS = 300000 if os.environ.get("TAMIS_LONG") else 100000
FILTER = "tamis_filter t tokens key=$arg_t capacity=1m fpp=1e-9;"
ANSWER = "location / { return 200 $tamis_first_t; }"
PATTERN = rb"\r\n\r\n([01])"  # the end of a head, and the body


class Load:
    """Sends tokens on several connections at once, and notes what each was told."""

    def __init__(self, nginx, path="/?t={}"):
        self.nginx, self.path = nginx, path
        self.winners, self.answers = {}, {}  # how often, for each token
        self.sent = 0
        self.connections = []

    def send(self, tokens, connections=None):
        """One batch.  A connection that breaks leaves tokens without an answer: its worker may have added
        them, or not."""
        self.connections = connections or self.connections
        data = b"".join(request(self.path.format(token)) for token in tokens)
        self.connections += [None] * (CONNECTIONS - len(self.connections))
        broken = set()
        for i, connection in enumerate(self.connections):
            try:
                if not connection:
                    self.connections[i] = connection = Connection(self.nginx.port)
                connection.send(data)
                self.sent += len(tokens)
            except OSError:
                broken.add(i)
        for i, connection in enumerate(self.connections):
            try:
                got = [] if i in broken else connection.receive(PATTERN, len(tokens))
            except OSError:
                got = []
            for token, answer in zip(tokens, got):
                self.answers[token] = self.answers.get(token, 0) + 1
                self.winners[token] = self.winners.get(token, 0) + (answer == b"1")
            if len(got) < len(tokens):
                if connection:
                    connection.close()
                self.connections[i] = None

    def check(self, tokens, hidden=0):
        """No token has two winners; of those for which all have answered each has one, but for those that a false
        positive may have hidden."""
        tokens = list(tokens)
        twice = [token for token in tokens if self.winners.get(token, 0) > 1]
        none = [token for token in tokens if self.answers.get(token) == CONNECTIONS and not self.winners[token]]
        same(twice, [], f"{len(twice)} tokens with more than one winner")
        same(none[hidden:], [], f"{len(none)} tokens without a winner")

    def check_seen(self, tokens):
        """Each token for which somebody has answered is in, for each connection."""
        tokens = [token for token in tokens if self.answers.get(token)]
        again = Load(self.nginx, self.path)
        for start in range(0, len(tokens), BATCH):
            again.send(tokens[start : start + BATCH], again.connections)
        same({again.answers[token] for token in tokens}, {CONNECTIONS}, "answers")
        missing = [token for token in tokens if again.winners[token]]
        same(missing, [], f"{len(missing)} of {len(tokens)} acknowledged tokens are missing")


def test_one_winner(context):
    nginx = context.start(FILTER, ANSWER)
    load = Load(nginx)
    for start in range(0, TOKENS, BATCH):
        load.send(range(start, start + BATCH), load.connections or nginx.connect_to_each())
    load.check(range(TOKENS))
    same({load.answers[token] for token in range(TOKENS)}, {CONNECTIONS}, "answers")
    same(sum(load.winners.values()), TOKENS, "winners")


class Disturbance(threading.Thread):
    """Does something again and again while tokens are sent."""

    def __init__(self, *steps, pause):
        super().__init__(daemon=True)
        self.steps, self.pause = steps, pause
        self.count = 0
        self.failure = None
        self.ends = threading.Event()

    def run(self):
        try:
            while self.count < MOST and not self.ends.wait(self.pause):
                self.steps[self.count % len(self.steps)]()
                self.count += 1
        except Exception as failure:
            self.failure = failure

    def end(self):
        self.ends.set()
        self.join()
        if self.failure:
            raise self.failure


def kill_one(nginx):
    def kill():
        workers = nginx.all_workers()
        try:
            os.kill(random.choice(workers), signal.SIGKILL)
        except (IndexError, ProcessLookupError):
            pass
    return kill


def send_under(nginx, *disturbances, hidden=0):
    """Sends a third of the tokens, and goes on until each disturbance has come ten times, and one of a binary twice."""
    load, start = Load(nginx), 0
    for disturbance in disturbances:
        disturbance.start()
    until = time.monotonic() + 300
    while start < TOKENS // 3 or any(d.count < (2 if d.pause > 0.4 else 10) and not d.failure for d in disturbances):
        if time.monotonic() > until:
            raise AssertionError(f"disturbances: {[d.count for d in disturbances]}")
        load.send(range(start, start + BATCH))
        start += BATCH
    for disturbance in disturbances:
        disturbance.end()
    wait_until(lambda: len(nginx.all_workers()) == nginx.workers, "all workers run")
    load.check(range(start), hidden)
    load.check_seen(range(start))
    answered = sum(token in load.answers for token in range(start))
    print(f"# {start} tokens, {answered} answered, {sum(load.winners.values())} winners, {load.sent} requests, "
          f"{[d.count for d in disturbances]} disturbances")
    return load


def test_all_at_once(context):
    nginx = context.start(FILTER, ANSWER)
    send_under(nginx, Disturbance(nginx.reload, nginx.upgrade, pause=0.2), Disturbance(kill_one(nginx), pause=0.07))
    found("signal 9", nginx.log())


def test_a_window(context):
    """The same with a window, whose periods end meanwhile, and which remembers them all."""
    nginx = context.start("tamis_filter t tokens key=$arg_t capacity=1m fpp=2e-7 window=64 period=4s;", ANSWER)
    send_under(nginx, Disturbance(nginx.reload, nginx.upgrade, pause=0.2), Disturbance(kill_one(nginx), pause=0.07),
               hidden=2)
