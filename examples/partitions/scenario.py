#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The scenario of examples/partitions, against a PostgreSQL that it starts on loopback.

    scenario.py --programs BUILD [--short] [--rows N] [--days N] [--seconds N] [--seed N]

measures look-ups by an id with the bank of filters, without it, and with PostgreSQL's own indexes; and then
inserts rows, late ones too, closes, detaches and attaches partitions, while the client and the database are
killed at random.  A reader that keeps its bank open, and a new one, must find every row whose insert was
acknowledged before the look-up began.
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "tests/support")]
from loopback import end_with_parent, supervised  # noqa: E402
from parts import OWNER_PASSWORD, Broken, Database, Sql, check, table  # noqa: E402


class Client:
    """The program `partitions`, with a command, a folder of filters and a database."""

    def __init__(self, scene, *words):
        command = [scene.program, "--folder", scene.bank, "--database", scene.database.address("owner"),
                   "--rows", str(scene.rows_of_day), *words]
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=end_with_parent, env={**os.environ, "PGPASSWORD": OWNER_PASSWORD})

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
        out, err = self.process.communicate(text)
        return self.process.returncode, out, err


class Scene:
    def __init__(self, folder, options):
        folder.chmod(0o755)
        self.options, self.random = options, random.Random(options.seed)
        self.program = options.programs.resolve() / "partitions"
        self.bank = folder / "bank"
        self.bank.mkdir()
        self.rows_of_day = max(1, options.rows // options.days)
        self.database = Database(folder / "database").start()
        self.sql = Sql(self.database)
        clear(self)

    def run(self, *words, text=""):
        status, out, err = Client(self, *words).end(text)
        check(status == 0, f"'{' '.join(map(str, words))}' succeeds", err)
        return out, err


def clear(scene):
    """Another table without partitions, and no files."""
    scene.sql("DROP TABLE IF EXISTS orders")
    scene.sql("CREATE TABLE orders (day int NOT NULL, id text NOT NULL, payload text NOT NULL) PARTITION BY LIST (day)")
    for path in scene.bank.iterdir():
        path.unlink()


# ---- what it costs ----


def id_of(number):
    """A random-looking id that says nothing about the day."""
    return f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}"


def fill(scene):
    days, n = scene.options.days, scene.rows_of_day
    scene.run("create", *range(1, days + 1))
    scene.sql(
        "INSERT INTO orders SELECT i / %d + 1, lpad(to_hex((i::numeric * 11400714819323198485 %% 18446744073709551616"
        " - CASE WHEN i::numeric * 11400714819323198485 %% 18446744073709551616 >= 9223372036854775808"
        " THEN 18446744073709551616 ELSE 0 END)::bigint), 16, '0'), repeat(md5(i::text), 2)"
        " FROM generate_series(0, %d) i" % (n, days * n - 1))
    for day in range(1, days + 1):  # all are closed but the last: the rows came past the bank
        (scene.bank / f"{day}.open").unlink()
    begin = time.monotonic()
    scene.run("rebuild", *range(1, days + 1))
    scene.sql("ANALYZE orders")
    return time.monotonic() - begin


def ask(scene, count, *words):
    """The figures of look-ups, half of them of ids that are there; every answer is checked."""
    total = scene.options.days * scene.rows_of_day
    numbers = [scene.random.randrange(2 * total) for _ in range(count)]
    out, err = scene.run(*words, "find", text="".join(id_of(number) + "\n" for number in numbers))
    for number, line in zip(numbers, out.splitlines()):
        wanted = [str(number // scene.rows_of_day + 1)] if number < total else []
        check(line.split() == [id_of(number), *wanted], "the row of an id is found", line, wanted)
    words = err.split()
    return dict(zip(words[::2], words[1::2]))


def mib(number):
    return f"{int(number) / 2**20:.1f} MiB"


def measure(scene):
    seconds = fill(scene)
    size = scene.sql("SELECT sum(pg_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'orders'::regclass")[0]
    filters = sum(path.stat().st_size for path in scene.bank.glob("*.closed"))
    late = sum(path.stat().st_blocks * 512 for path in scene.bank.glob("*.late"))
    print(f"  {scene.options.days} partitions of {scene.rows_of_day} rows, {mib(size)}; the bank was built in"
          f" {seconds:.0f} s", flush=True)
    rows = [("look-up by", "partitions", "P50, ms", "P99, ms", "look-ups/s", "takes", "made in, s")]

    def add(name, count, takes, made, *words):
        figures = ask(scene, count, *words)
        rows.append((name, figures["partitions"], figures["p50"], figures["p99"], figures["rate"], takes, made))

    n = scene.options.lookups
    add("nothing: all partitions are read", max(5, n // 100), "-", "-", "--all")
    add("the bank of filters", n, mib(filters + late), f"{seconds:.0f}")
    for name, statement in (("bloom index on each partition", "CREATE INDEX by_id ON orders USING bloom (id)"),
                            ("B-tree on each partition", "CREATE INDEX by_id ON orders (id)")):
        scene.sql("CREATE EXTENSION IF NOT EXISTS bloom")
        begin = time.monotonic()
        scene.sql(statement)
        made = f"{time.monotonic() - begin:.0f}"
        takes = scene.sql("SELECT sum(pg_relation_size(i.inhrelid)) FROM pg_inherits i"
                          " WHERE i.inhparent = 'by_id'::regclass")[0]
        add(name, n // 4, mib(takes), made, "--all")
        add(f"{name.split()[0]} index and the bank", n, mib(int(takes) + filters + late), made)
        scene.sql("DROP INDEX by_id")
    table(rows)
    clear(scene)


# ---- what it promises ----


def steps(scene):
    """Each promise once, by a writer and a reader that opened their files before."""
    writer, reader, number = Client(scene, "insert"), Client(scene, "find"), 2**42

    def insert(day, promise):
        nonlocal number
        rows = [(day, id_of(number + i)) for i in range(100)]
        number += 100
        check(writer.ask("".join(f"{day} {id}\n" for day, id in rows)) == "100", "rows are inserted")
        find(rows[0][1], day, promise)

    def find(id, day, promise):
        line = reader.ask(id + "\n")
        check(line == f"{id} {day}", promise, line)

    scene.run("create", 1)
    insert(1, "a row of an open partition is found")
    scene.run("create", 2)
    insert(2, "a row of a partition that is new to the reader is found")
    scene.run("close", 1)
    insert(1, "a late row of a partition that was closed meanwhile is found")
    insert(2, "a row of the other one is found")
    scene.sql("ALTER TABLE orders DETACH PARTITION orders_1")
    scene.sql(f"INSERT INTO orders_1 VALUES (1, '{id_of(7)}', '')")
    find_nothing = reader.ask(id_of(7) + "\n")
    check(find_nothing == id_of(7), "a row of a detached partition is not found", find_nothing)
    scene.run("attach", 1)
    find(id_of(7), 1, "a row that came past the bank is found after it was attached")
    insert(1, "a late row of a partition that was attached again is found")
    scene.sql("CREATE TABLE orders_3 PARTITION OF orders FOR VALUES IN (3)")
    insert(3, "a row of a partition without filters is found")
    scene.run("rebuild", 3)
    insert(3, "a late row of it is found when it has filters")
    scene.run("close", 3)
    late, _ = scene.run("find", text=f"{id_of(number - 1)}\n{id_of(5)}\n")
    check(late.splitlines() == [f"{id_of(number - 1)} 3", id_of(5)], "a new reader finds the same", late)
    status, _, err = Client(scene, "close", 4).end()
    check(status == 1, "a partition that is not there cannot be closed", err)
    writer.end()
    reader.end()
    clear(scene)


MOST_CHECKED = 20000  # rows at the end, which takes a minute or two


class Shop:
    """Inserts rows, and knows which were acknowledged."""

    def __init__(self, scene):
        self.scene, self.acknowledged, self.next = scene, {}, 0
        self.days, self.detached = [], None
        self.writer = self.reader = None
        self.kills = self.outages = self.asked = self.moves = 0
        self.open_day()

    def patiently(self, *words):
        """A command that may be killed, or meet a database that is down: again until it succeeds."""
        while True:
            client = Client(self.scene, *words)
            if self.scene.random.random() < 0.3:
                time.sleep(self.scene.random.random() * 0.03)
                client.kill()
                self.kills += 1
                continue
            if client.end()[0] == 0:
                return
            self.scene.database.session().close()

    def open_day(self):
        self.days.append(len(self.days) + 1)
        self.patiently("create", self.days[-1])

    def insert(self):
        """A transaction of rows, most of today; sometimes the client is killed in the midst of it."""
        scene = self.scene
        if self.writer is None or self.writer.process.poll() is not None:
            scene.database.session().close()
            self.writer = Client(scene, "insert")
        open_days = [day for day in self.days if day != self.detached]
        rows = []
        for _ in range(100):
            day = open_days[-1] if scene.random.random() < 0.8 else scene.random.choice(open_days)
            rows.append((day, id_of(2**40 + self.next)))
            self.next += 1
        text = "".join(f"{day} {id}\n" for day, id in rows)
        if scene.random.random() < 0.1:
            try:
                self.writer.process.stdin.write(text)
                self.writer.process.stdin.flush()
            except BrokenPipeError:
                pass
            time.sleep(scene.random.random() * 0.01)
            self.writer.kill()
            self.kills += 1
        elif self.writer.ask(text) == "100":
            for day, id in rows:
                self.acknowledged[id] = str(day)

    def close_day(self):
        self.open_day()
        self.patiently("close", self.days[-2])
        self.moves += 1

    def detach_or_attach(self):
        scene = self.scene
        try:
            sql = scene.database.session()
            if self.detached is None and len(self.days) > 3:
                day = scene.random.choice(self.days[:-2])
                sql(f"ALTER TABLE orders DETACH PARTITION orders_{day}")
                self.detached = day
                id = id_of(2**41 + self.next)  # a row that comes past the bank
                self.next += 1
                sql(f"INSERT INTO orders_{day} VALUES ({day}, '{id}', '')")
                self.acknowledged[id] = str(day)
            elif self.detached is not None:
                self.attach()
            sql.close()
            self.moves += 1
        except ConnectionError:
            pass

    def attach(self):
        day = self.detached
        while True:
            client = Client(self.scene, "attach", day)
            if self.scene.random.random() < 0.3:  # killed before or after the change: the operator looks
                time.sleep(self.scene.random.random() * 0.03)
                client.kill()
                self.kills += 1
            elif client.end()[0] == 0:
                break
            attached = self.scene.database.session()(
                f"SELECT count(*) FROM pg_inherits WHERE inhrelid = 'orders_{day}'::regclass")[0]
            if attached == "1":
                break  # if it has no filters, it is searched for every id
        self.detached = None

    def check(self, reader, ids):
        for id in ids:
            line = reader.ask(id + "\n")
            if line is None:
                return False  # the database has gone
            day = self.acknowledged.get(id)
            if day != str(self.detached):
                check(day is None or day in line.split()[1:], "a row is found", line, f"day {day}",
                      sorted(path.name for path in self.scene.bank.glob(f"{day}.*")))
            self.asked += 1
        return True

    def look_up(self):
        """By a reader that has opened its bank long ago."""
        if self.reader is None or self.reader.process.poll() is not None:
            self.scene.database.session().close()
            self.reader = Client(self.scene, "find")
        known = list(self.acknowledged)
        ids = known[-5:] + self.scene.random.choices(known, k=15) if known else []
        if not self.check(self.reader, ids + [id_of(self.scene.random.randrange(2**30))]):
            self.reader.end()

    def kill_database(self):
        self.scene.database.kill(all_processes=True)
        self.scene.database.start()
        self.outages += 1

    def check_all(self):
        self.scene.database.session().close()
        if self.detached is not None:
            self.attach()
        reader = Client(self.scene, "find")
        ids = list(self.acknowledged)
        ids = self.scene.random.sample(ids, min(len(ids), MOST_CHECKED))
        check(self.check(reader, ids), "the database is there")
        reader.end()


def kills(scene):
    shop = Shop(scene)
    deeds = [(shop.insert, 20), (shop.look_up, 20), (shop.close_day, 2), (shop.detach_or_attach, 2),
             (shop.kill_database, 1)]
    until = time.monotonic() + scene.options.seconds
    while time.monotonic() < until:
        scene.random.choices([deed for deed, _ in deeds], [weight for _, weight in deeds])[0]()
    shop.check_all()
    print(f"  {len(shop.acknowledged)} rows in {len(shop.days)} partitions, {shop.moves} of them closed, detached or"
          f" attached; {shop.kills} kills of the client and {shop.outages} of the database; {shop.asked} look-ups,"
          " none missed", flush=True)
    check(shop.kills > 0 and shop.moves > 0 and shop.asked > 0, "something has happened")


STAGES = {"steps": steps, "measure": measure, "kills": kills}


def main(folder, options):
    try:
        scene = Scene(folder, options)
        for stage in options.only:
            print(f"{stage}:", flush=True)
            STAGES[stage](scene)
    except Broken as error:
        print(error)
        return False
    print("all promises were kept")
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--days", type=int)
    parser.add_argument("--lookups", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", nargs="+", choices=STAGES, default=list(STAGES))
    given = parser.parse_args()
    given.rows = given.rows or (40000 if given.short else 10**7)
    given.days = given.days or (20 if given.short else 200)
    given.lookups = given.lookups or (200 if given.short else 4000)
    given.seconds = given.seconds or (15 if given.short else 60)
    print(f"seed {given.seed}", flush=True)
    supervised(lambda folder: main(folder, given))
