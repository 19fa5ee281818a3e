# SPDX-License-Identifier: MIT
"""Clients insert, delete and read while the guards and both servers are killed by -9 at random."""
import multiprocessing
import random
import time

from loopback import wait_until
from parts import Client, Sql, check, legend, replace, table

CLIENTS = 3
CLIENT_RANGE = 10**7  # of ids that one client has for itself
BLOCK = range(100_000_001, 100_001_001)  # rows that are deleted and inserted again in one transaction


class Writer:
    """Inserts, deletes and reads ids of its own, at both guards, and knows which of them exist.  An id
    whose write got no answer is given up: nobody knows whether it exists."""

    def __init__(self, number, ports, seed):
        self.random = random.Random(seed)
        self.clients = [Client(port) for port in ports]
        self.next = (number + 1) * CLIENT_RANGE + 10**10
        self.here, self.gone, self.tokens = [], [], {}
        self.counts = dict.fromkeys(("inserts", "deletes", "reads", "unknown", "unanswered"), 0)
        self.refused = []

    def insert(self):
        if self.gone and self.random.random() < 0.4:
            number = self.gone.pop(self.random.randrange(len(self.gone)))
        else:
            number, self.next = self.next, self.next + 1
        at = self.random.randrange(len(self.clients))
        written = self.clients[at].put(number)
        if written.status != 204:
            self.counts["unknown"] += 1
            return
        self.counts["inserts"] += 1
        self.tokens[number] = (at, written.token)
        self.read(number)
        self.here.append(number)

    def delete(self):
        number = self.here.pop(self.random.randrange(len(self.here)))
        gone = self.random.choice(self.clients).delete(number) if self.old(number) else self.at_own(number).delete(number)
        if gone.status == 204:
            self.counts["deletes"] += 1
            self.gone.append(number)
        elif gone.status == 404:
            self.refused.append((number, "delete", *gone))
        else:
            self.counts["unknown"] += 1

    def old(self, number):
        return number not in self.tokens

    def at_own(self, number):
        return self.clients[self.tokens[number][0]]

    def read(self, number):
        """At the process that wrote it, or at the other one with the token; both must find it."""
        at, token = self.tokens[number]
        where = self.random.randrange(len(self.clients))
        answer = self.clients[where].get(number, None if where == at and self.random.random() < 0.5 else token)
        self.counts["reads"] += 1
        if answer.status == 404:
            self.refused.append((number, "read", at, where, *answer))
        elif answer.status != 200:
            self.counts["unanswered"] += 1

    def step(self):
        choice = self.random.random()
        if choice < 0.3 or len(self.here) < 10:
            self.insert()
        elif choice < 0.5:
            self.delete()
        else:
            self.read(self.random.choice(self.here))


def be_client(number, ports, seed, until, results):
    client = Writer(number, ports, seed)
    while time.monotonic() < until:
        before = client.counts["unanswered"] + client.counts["unknown"]
        client.step()
        if client.counts["unanswered"] + client.counts["unknown"] > before:
            time.sleep(0.02)  # the database or a guard is about to start
    results.put((client.counts, client.refused, client.here))


def be_reader(ports, seed, until, results):
    """Reads rows that are deleted and inserted again, each time in one transaction: they always exist."""
    chance, clients = random.Random(seed), [Client(port) for port in ports]
    counts, refused = dict.fromkeys(("reads", "unanswered"), 0), []
    while time.monotonic() < until:
        number = chance.choice(BLOCK)
        answer = chance.choice(clients).get(number)
        counts["reads"] += 1
        if answer.status == 404 and answer.by == "filter":
            refused.append((number, "read of a row that is replaced", *answer))
        elif answer.status not in (200, 404):
            counts["unanswered"] += 1
    results.put((counts, refused, []))


def replace_block(scene, until):
    """Between two of its transactions nothing happens to the block; so it is done for as long as it goes."""
    sql = None
    while time.monotonic() < until:
        try:
            sql = sql or Sql(scene.database)
            replace(sql, BLOCK[0], BLOCK[-1])
            time.sleep(0.2)
        except ConnectionError:
            sql = None
            time.sleep(0.05)


def wait_for_both(guards, seconds=10):
    """Until both guards refuse ids; otherwise all kills would meet one that has just begun."""
    try:
        wait_until(lambda: all(guard.metrics().get("guard_closed") for guard in guards), "", seconds)
    except AssertionError:
        pass


def kill_at_random(scene, guards, chance, until):
    """What is killed is started again at once.  Returns how often each was."""
    kills = {"guard": 0, "database": 0, "server process": 0, "cache": 0}
    looks = closed = 0
    while time.monotonic() < until:
        if chance.random() < 0.8:
            wait_for_both(guards)
        time.sleep(chance.uniform(0, 1.2))
        looks += len(guards)
        closed += sum(guard.metrics().get("guard_closed", 0) for guard in guards)
        choice = chance.random()
        if choice < 0.55:
            kills["guard"] += 1
            guard = chance.choice(guards)
            guard.kill()
            guard.start(closed=False)
        elif choice < 0.8:
            kills["database"] += 1
            scene.database.kill(all_processes=chance.random() < 0.5)
            scene.database.start()
        elif choice < 0.9:
            kills["server process"] += 1
            scene.database.kill_backend()
        else:
            kills["cache"] += 1
            scene.cache.kill()
            scene.cache.start()
    return kills, closed / looks


def kills(scene, a, b):
    seconds = scene.options.seconds
    chance = random.Random(scene.options.seed)
    for guard in (a, b):  # without the bound, nothing but what is tested here keeps an id from being refused
        check(guard.process.end() == 0, "SIGTERM ends it with status 0")
        guard.process.command += ["--lag", "0"]
        guard.start()
    scene.sql(f"INSERT INTO items SELECT i, 'replaced' FROM generate_series({BLOCK[0]}, {BLOCK[-1]}) i")
    scene.audit(a, b)
    fills = [a.fills(), b.fills()]
    until, results, ports = time.monotonic() + seconds, multiprocessing.Queue(), [a.port, b.port]
    workers = [multiprocessing.Process(target=be_client, args=(i, ports, chance.random(), until, results)) for i in range(CLIENTS)]
    workers.append(multiprocessing.Process(target=be_reader, args=(ports, chance.random(), until, results)))
    workers.append(multiprocessing.Process(target=replace_block, args=(scene, until)))
    for worker in workers:
        worker.start()
    killed, closed = kill_at_random(scene, [a, b], chance, until)
    answers = [results.get(timeout=300) for _ in workers[:-1]]
    for worker in workers:
        worker.join(300)
    scene.database.start() if not scene.database.process.alive() else None
    scene.sql = scene.database.session()
    counts, refused, here = {}, [], []
    for numbers, wrong, ids in answers:
        counts = {name: counts.get(name, 0) + numbers.get(name, 0) for name in {**counts, **numbers}}
        refused += wrong
        here += ids
    table([("killed", *killed), ("times", *map(str, killed.values()))])
    table([tuple(counts), tuple(map(str, counts.values()))])
    legend({"killed": "by -9, and started again at once; a server process serves one connection of the database",
            "inserts, deletes": "acknowledged",
            "reads": "of rows that exist: the filter may refuse none",
            "unknown": "inserts and deletes without an answer, as what would have answered was killed: the row may be"
                       " there or not, and its id is not used again",
            "unanswered": "reads that got no answer, or 503 while the database was away"})
    check(not refused, "no id is refused after its insert was acknowledged", f"{len(refused)} were", refused[:5])
    for guard in (a, b):
        if not guard.process.alive():
            guard.start()
    rows = set(map(int, scene.sql("SELECT id FROM items WHERE id >= 10000000000")))
    lost = [number for number in here if number not in rows]
    check(not lost, "the database has all that was acknowledged", lost[:5])
    number = scene.audit(a, b, most=10**4 if scene.options.short else 10**9)
    check([a.fills(), b.fills()] == fills, "no kill makes the table be read again", a.process.log()[-1500:])
    return (f"{sum(killed.values())} kills, {number} rows, none refused, one copy each; the guards refused ids in"
            f" {100 * closed:.0f} % of the time")
