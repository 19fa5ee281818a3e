#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A partitioned table of a PostgreSQL that the scenario starts on loopback: how many partitions a look-up searches,
and what look-ups find while partitions come and go, and the client and the database are killed by -9.

    scenario.py --programs DIR [--days N] [--rows N] [--deeds N] [--seed N]
"""
import collections
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
from loopback import end_with_parent, scenario  # noqa: E402
from servers import PostgreSQL  # noqa: E402


def check(condition, promise, *facts):
    if not condition:
        raise AssertionError(f"FAILED: {promise}" + "".join(f"; {fact}" for fact in facts))


def id_of(number):
    """A random-looking id that says nothing about the day."""
    return f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}"


class Client:
    """The program, with a command."""

    def __init__(self, scene, *words, stdout=subprocess.PIPE):
        self.process = subprocess.Popen(
            list(map(str, [scene.program, scene.bank, *words])), stdin=subprocess.PIPE, stdout=stdout,
            stderr=subprocess.PIPE, text=True, preexec_fn=end_with_parent, env={**os.environ, **scene.database.environment})

    def ask(self, text):
        """The next line of its output; None if it has ended."""
        try:
            self.process.stdin.write(text)
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.process.stdout.readline().rstrip("\n") or None

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end(self, text=""):
        """(status, output, errors)."""
        out, err = self.process.communicate(text)
        return self.process.returncode, out, err


class Scene:
    def __init__(self, folder, options):
        self.options, self.random = options, random.Random(options.seed)
        self.program = options.programs.resolve() / "partitions"
        self.bank = folder / "bank"
        self.bank.mkdir()
        self.database = PostgreSQL(folder / "database")
        self.new_table()

    def new_table(self):
        self.database.sql("DROP TABLE IF EXISTS orders; CREATE TABLE orders (day int NOT NULL, id text NOT NULL,"
                          " payload text NOT NULL) PARTITION BY LIST (day)")
        for path in self.bank.iterdir():
            path.unlink()

    def run(self, *words, text=""):
        status, out, err = Client(self, *words).end(text)
        check(status == 0, f"'{' '.join(map(str, words))}' succeeds", err)
        return out, err


# ---- what it saves ----


def savings(scene):
    days, rows = scene.options.days, scene.options.rows
    scene.run("attach", *range(1, days + 1))
    scene.run("insert", text="".join(f"{number // rows + 1} {id_of(number)}\n" for number in range(days * rows)))
    print(f"{days} partitions of {rows} rows; {sum(path.stat().st_blocks for path in scene.bank.iterdir()) // 2} KiB of filters")
    numbers = [scene.random.randrange(2 * days * rows) for _ in range(200)]  # half of them are there
    for command, what in ("find-all", "without the filters"), ("find", "with the filters"):
        begin = time.monotonic()
        out, err = scene.run(command, text="".join(id_of(number) + "\n" for number in numbers))
        seconds = time.monotonic() - begin
        for number, line in zip(numbers, out.splitlines()):
            wanted = [str(number // rows + 1)] if number < days * rows else []
            check(line.split() == [id_of(number), *wanted], "the row of an id is found", line, wanted)
        searched = float(err.split()[0])
        print(f"{what}: {searched:.2f} partitions are searched for an id, {1000 * seconds / len(numbers):.1f} ms each", flush=True)
    check(searched < 0.5 + 0.05 * days, "few partitions are searched", searched)
    scene.new_table()


# ---- what it promises ----


def promises(scene):
    """Each promise once, by a writer and a reader that have opened their files before."""
    writer, reader, sql, number = Client(scene, "insert"), Client(scene, "find"), scene.database.sql, 2**42

    def find(id, day, promise):
        line = reader.ask(id + "\n")
        check(line and line.split() == [id, str(day)], promise, line)

    def insert(day, promise):
        nonlocal number
        ids = [id_of(number + i) for i in range(100)]
        number += 100
        check(writer.ask("".join(f"{day} {id}\n" for id in ids)) == "100", "rows are inserted")
        find(ids[0], day, promise)

    scene.run("attach", 1)
    insert(1, "a row of a new partition is found")
    scene.run("attach", 2)
    insert(2, "a row of a partition that is new to the reader is found")
    sql("CREATE TABLE orders_3 PARTITION OF orders FOR VALUES IN (3)")
    insert(3, "a row of a partition without a filter is found")
    scene.run("attach", 3)
    insert(3, "a row is found when that partition has a filter")
    sql(f"ALTER TABLE orders DETACH PARTITION orders_1; INSERT INTO orders_1 VALUES (1, '{id_of(7)}', '')")
    scene.run("attach", 1)
    find(id_of(7), 1, "a row that came past the client is found after its partition was attached")
    insert(1, "a row of a partition that was attached again is found")
    status, _, err = Client(scene, "insert").end("1  two-spaces\n")
    check(status == 1 and "is not 'DAY ID'" in err, "a line that is no row is refused", err)
    status, out, err = Client(scene, "find").end(id_of(7) + "\n" + "1" * 65 + "\n")
    check(status == 1 and out == f"{id_of(7)} 1\n" and "too long" in err, "an id that is too long is refused, not cut in two", err)
    with open("/dev/full", "w") as full:
        check(Client(scene, "find", stdout=full).end(id_of(7) + "\n")[0] == 1, "a full disk is an error")
    for client in (writer, reader):
        check(client.end()[0] == 0, "a client ends at the end of its input")
    scene.new_table()
    print("rows are found by a reader that has its files open, while partitions are made, detached and attached", flush=True)


# ---- kills ----


class Shop:
    """Inserts rows, and knows which were acknowledged."""

    def __init__(self, scene):
        self.scene, self.random, self.sql = scene, scene.random, scene.database.sql
        self.day_of, self.next, self.days, self.detached = {}, 0, [], None
        self.writer = self.reader = None
        self.done = collections.Counter()
        self.new_day()

    def attach(self, day):
        """A command that is killed sometimes, and then tried again."""
        while True:
            client = Client(self.scene, "attach", day)
            if self.random.random() < 0.5:
                time.sleep(self.random.random() * 0.04)
                client.kill()
                self.done["kills of the client"] += 1
            elif client.end()[0] == 0:
                return

    def new_day(self):
        self.days.append(len(self.days) + 1)
        self.attach(self.days[-1])
        self.done["new partitions"] += 1

    def insert(self):
        """A transaction of rows; the client is killed in the midst of some."""
        if self.writer is None or self.writer.process.poll() is not None:
            self.writer = Client(self.scene, "insert")
        here = [day for day in self.days if day != self.detached]
        rows = {id_of(2**40 + self.next + i): self.random.choice(here) for i in range(100)}
        self.next += 100
        text = "".join(f"{day} {id}\n" for id, day in rows.items())
        if self.random.random() < 0.15:
            self.writer.process.stdin.write(text)
            self.writer.process.stdin.flush()
            time.sleep(self.random.random() * 0.01)
            self.writer.kill()
            self.done["kills of the client"] += 1
        elif self.writer.ask(text) == "100":
            self.day_of.update(rows)
            self.done["rows acknowledged"] += 100

    def detach_or_attach(self):
        if self.detached is None and len(self.days) > 2:
            self.detached = self.random.choice(self.days)
            id = id_of(2**41 + self.next)  # a row that comes past the client
            self.next += 1
            self.sql(f"ALTER TABLE orders DETACH PARTITION orders_{self.detached};"
                     f" INSERT INTO orders_{self.detached} VALUES ({self.detached}, '{id}', '')")
            self.day_of[id] = self.detached
        elif self.detached is not None:
            self.attach(self.detached)
            self.detached = None
            self.done["detached and attached"] += 1

    def kill_database(self):
        self.scene.database.kill()
        self.scene.database.start()
        self.done["kills of the database"] += 1
        self.writer = self.reader = None

    def look_up(self, ids=None):
        """By a reader that has opened its files long ago."""
        if self.reader is None:
            self.reader = Client(self.scene, "find")
        known = list(self.day_of)
        for id in ids or known[-5:] + self.random.choices(known or [id_of(1)], k=15):
            line = self.reader.ask(id + "\n")
            check(line is not None, "the reader answers")
            wanted = [str(day) for day in [self.day_of.get(id)] if day not in (None, self.detached)]
            check(line.split() == [id, *wanted], "a row is found", line, wanted)
            self.done["look-ups"] += 1


def kills(scene):
    shop = Shop(scene)
    deeds = {shop.insert: 10, shop.look_up: 10, shop.new_day: 1, shop.detach_or_attach: 3}
    for number in range(scene.options.deeds):
        scene.random.choices(list(deeds), list(deeds.values()))[0]()
        if number % 60 == 59:
            shop.kill_database()
    if shop.detached is not None:
        shop.detach_or_attach()
    for shop.reader in shop.reader, None:  # that one, and one that begins now
        shop.look_up(scene.random.sample(list(shop.day_of), min(1000, len(shop.day_of))))
    print(", ".join(f"{what}: {count}" for what, count in shop.done.items()) + ".  No row was missed.")


def main(folder, options):
    print(f"--seed {options.seed}", flush=True)
    scene = Scene(folder, options)
    for stage in savings, promises, kills:
        stage(scene)
    return True


if __name__ == "__main__":
    scenario(main, days=40, rows=500, deeds=180)
