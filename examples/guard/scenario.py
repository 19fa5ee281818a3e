#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Guards in front of a PostgreSQL and a Redis that the scenario starts on loopback: what they save, and what clients
get while guards and servers are killed by -9.

    scenario.py --programs DIR [--kills N] [--seed N]
"""
import collections
import http.client
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
from loopback import HOST, Process, answers, free_port, scenario  # noqa: E402
from servers import PostgreSQL, Redis  # noqa: E402

ROWS = 2000  # of the table, in the beginning: the ids 1 to ROWS
WRONG = 10**9  # ids from here on do not exist
CAPACITY = 100_000
CLIENTS = 3

Answer = collections.namedtuple("Answer", "status by text")


def check(condition, promise, *facts):
    if not condition:
        raise AssertionError(f"FAILED: {promise}" + "".join(f"; {fact}" for fact in facts))


class Guard:
    def __init__(self, scene, name, *options):
        self.scene, self.folder, self.options = scene, scene.folder / name, options
        self.start()

    def start(self):
        for _ in range(20):
            self.port = free_port()
            command = [self.scene.program, self.port, self.scene.cache.port, *self.options]
            self.process = Process(command, self.folder, **self.scene.database.environment)
            if self.process.start().wait_for(lambda: answers(self.port)):
                return
        raise AssertionError(f"the guard does not start: {self.process.log()[-2000:]}")

    def ask(self, method, path, body=None):
        """An Answer; its status is 0 if there was none."""
        try:
            connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
            connection.request(method, path, body)
            response = connection.getresponse()
            return Answer(response.status, response.headers.get("X-Answered-By"), response.read().decode())
        except (OSError, http.client.HTTPException):
            return Answer(0, None, "")
        finally:
            connection.close()

    def item(self, method, number, body=None):
        return self.ask(method, f"/items/{number}", body)

    def stats(self):
        words = self.ask("GET", "/stats").text.split()
        return dict(zip(words[::2], map(int, words[1::2])))


class Scene:
    def __init__(self, folder, options):
        self.folder, self.random = folder, random.Random(options.seed)
        self.program = options.programs.resolve() / "guard"
        self.database, self.cache = PostgreSQL(folder / "database"), Redis(folder / "cache")
        self.database.sql("CREATE TABLE items (id bigint PRIMARY KEY, body text NOT NULL);"
                          f" INSERT INTO items SELECT i, 'body of ' || i FROM generate_series(1, {ROWS}) i")
        self.filter = folder / "ids.tamis"
        self.guards = [Guard(self, name, self.filter, CAPACITY) for name in ("a", "b")]

    def rows(self):
        return set(map(int, self.database.sql("SELECT id FROM items")))

    def audit(self, most_stale):
        """Both guards find every row, and the filter has a copy of each, and no more others than it may have."""
        rows, copies = self.rows(), self.guards[0].stats()["copies"]
        for guard in self.guards:
            refused = [number for number in rows if guard.item("GET", number).status != 200]
            check(not refused, "every row is found", f"{len(refused)} of {len(rows)} are not", refused[:5])
        check(len(rows) <= copies <= len(rows) + most_stale, "the filter has a copy of each row",
              f"{copies} copies, {len(rows)} rows, at most {most_stale} more")
        return len(rows), copies


# ---- what it saves ----


def savings(scene):
    """Requests for ids that do not exist, as of one who guesses them, and for others."""
    plain, guard, count = Guard(scene, "plain", "-"), scene.guards[0], ROWS // 2
    print(f"{f'{count} requests for':30} {'filter':8} {'refused by it':>13} {'cache hits':>10} {'queries of the database':>23}")
    for what, first in (("ids that do not exist", WRONG), ("ids that exist", 1), ("the same ids again", 1)):
        for name, each, start in (("without", plain, first), ("with", guard, first + count)):
            before = each.stats()
            for number in range(start, start + count):
                each.item("GET", number)
            said = {key: value - before[key] for key, value in each.stats().items()}
            print(f"{what:30} {name:8} {said['refused']:13} {said['cached']:10} {said['queries']:23}", flush=True)
            if what == "ids that do not exist":
                check(said["queries"] == count if each is plain else said["queries"] <= count // 100,
                      "the filter keeps such requests from the database", said)
    print(f"The filter lets one id in a thousand pass when it is full.  It takes {guard.stats()['bytes'] // 1024} KiB, for up to {CAPACITY} ids.")


# ---- what it promises ----


def promises(scene):
    a, b = scene.guards
    check(a.item("PUT", 10001, "new").status == 204, "a row is inserted")
    check(b.item("GET", 10001).text == "new", "another guard finds it at once")
    check(b.item("PUT", 10001, "changed").status == 204, "a row is changed")
    check(a.item("GET", 10001).text == "changed", "the cache has no old row")
    check(a.item("PUT", 10001, "x" * 4096).status == 204 and b.item("GET", 10001).text == "x" * 4096, "a row has 4096 bytes")
    check([a.item("PUT", 10001, body).status for body in ("x" * 4097, "x" * 100_000, "a\0b")] == [400] * 3
          and b.item("GET", 10001).text == "x" * 4096, "a body that is too long, or has a byte 0, is refused, not cut off")
    check(a.item("PUT", 10001, b"\xff").status == 400 and b.item("GET", 10001).text == "x" * 4096, "so is a body that is no UTF-8")
    check(a.item("DELETE", 10001).status == 204, "a row is deleted")
    check(b.item("GET", 10001).status == 404, "another guard does not find it")
    check(b.item("DELETE", 10001).status == 404, "a row is deleted once")
    scene.audit(0)
    scene.cache.kill()
    check(a.item("GET", 1).text == "body of 1", "without the cache everything works")
    scene.database.kill()
    for method, number in ("GET", 2), ("DELETE", 2), ("PUT", 3):
        check(a.item(method, number, "x").status == 503, f"without the database, {method} of an id that exists is no 404")
    check(b.item("GET", WRONG + 7).by == "filter" or b.item("GET", WRONG + 8).by == "filter", "ids are refused without servers")
    scene.database.start()
    scene.cache.start()
    check(a.item("GET", 2).text == "body of 2", "a delete that failed has taken nothing from the filter")
    scene.audit(1)
    print("two guards agree; without its servers, a guard says 503 for ids that may exist, and refuses the others", flush=True)


# ---- kills ----


class Client(threading.Thread):
    """Inserts, deletes and reads ids of its own, at both guards.  An id whose write got no answer is given up: nobody
    knows whether it exists."""

    def __init__(self, scene, number):
        super().__init__(daemon=True)
        self.scene, self.random, self.next = scene, random.Random(scene.random.random()), (number + 1) * 10**6
        self.here, self.gone, self.wrong, self.ended = [], [], [], False
        self.counts = collections.Counter()

    def write(self, method, number, here):
        answer = self.random.choice(self.scene.guards).item(method, number, "body")
        if answer.status == 204:
            here.append(number)
            self.counts[f"{method}, acknowledged"] += 1
        elif answer.status == 404:
            self.wrong.append((number, method, *answer))
        else:
            self.counts["writes without an answer"] += 1
            time.sleep(0.02)  # something is about to start

    def read(self, number):
        answer = self.random.choice(self.scene.guards).item("GET", number)
        self.counts["GET, answered" if answer.status == 200 else "reads without an answer"] += 1
        if answer.status == 404:
            self.wrong.append((number, "GET", *answer))

    def run(self):
        while not self.ended:
            choice = self.random.random()
            if len(self.here) < 10 or choice < 0.3:
                if self.gone and choice < 0.1:
                    self.write("PUT", self.gone.pop(), self.here)
                else:
                    self.next += 1
                    self.write("PUT", self.next, self.here)
            elif choice < 0.45:
                self.write("DELETE", self.here.pop(self.random.randrange(len(self.here))), self.gone)
            else:
                self.read(self.random.choice(self.here))


def kill_one(scene, clients):
    """Kills something when the clients have got some more answers, and starts it again."""
    until = sum(sum(client.counts.values()) for client in clients) + scene.random.randrange(50, 300)
    while sum(sum(client.counts.values()) for client in clients) < until:
        time.sleep(0.005)
    victim = scene.random.choice([*scene.guards, *scene.guards, scene.database, scene.cache])
    (victim.process if victim in scene.guards else victim).kill()
    victim.start()
    return type(victim).__name__


def kills(scene, count):
    clients = [Client(scene, i) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    killed = collections.Counter(kill_one(scene, clients) for _ in range(count))
    for client in clients:
        client.ended = True
        client.join()
    counts = sum((client.counts for client in clients), collections.Counter())
    print("killed by -9 and started again: " + ", ".join(f"{name} {n} times" for name, n in sorted(killed.items())))
    print("clients: " + ", ".join(f"{name}: {n}" for name, n in sorted(counts.items())), flush=True)
    wrong = [fact for client in clients for fact in client.wrong]
    check(not wrong, "no id is refused whose insert was acknowledged", f"{len(wrong)} were", wrong[:5])
    rows = scene.rows()
    lost = [number for client in clients for number in client.here if number not in rows]
    check(not lost, "the database has all that was acknowledged", lost[:5])
    found, copies = scene.audit(1 + counts["writes without an answer"])
    print(f"{found} rows, none refused.  The filter has {copies} copies of ids: {copies - found} belong to writes without an"
          " answer, which cost a query when somebody asks for such an id.")


def main(folder, options):
    print(f"PostgreSQL, Redis and two guards, which share a filter (--seed {options.seed})", flush=True)
    scene = Scene(folder, options)
    savings(scene)
    promises(scene)
    kills(scene, options.kills)
    for guard in scene.guards:
        check(guard.process.end() == 0, "SIGTERM ends a guard")
    return True


if __name__ == "__main__":
    scenario(main, kills=16)
