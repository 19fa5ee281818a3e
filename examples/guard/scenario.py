#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The guard with real parts: PostgreSQL, Redis, and two processes of the guard on one table.

Each promise of README.md is put to the test: alone first, and then with clients that insert, delete and
read while the guards and both servers are killed by -9 at random.  In between, wrk attacks with random
ids, with the guard and without it.

    scenario.py --programs FOLDER [--short] [--seconds N] [--rows N] [--only STAGE ...] [--seed N]

  --programs   the folder where `guard` was built
  --seconds    how long processes are killed (default 60; with --short 8)
  --rows       rows of the table (default 200000; with --short 20000)
  --only       some of: promises attack kills
"""
import argparse
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

import parts
from loopback import supervised, wait_until
from kills import kills
from parts import Broken, Cache, Database, Guard, Sql, check, legend, own, refused_of, replace, run_load, stage, table

WRONG_ID = 10**15  # no row has this id or a higher one
LAG = 1.0  # seconds: the guard's --lag


class Scene:
    """All parts, and what the stages share."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        folder.chmod(0o755)
        self.programs, self.tool = stage(options.programs.resolve(), folder / "bin")
        self.database = Database(folder / "database").start()
        self.cache = Cache(folder / "cache").start()
        self.sql = Sql(self.database)
        self.sql(f"CREATE ROLE guard LOGIN REPLICATION PASSWORD '{parts.GUARD_PASSWORD.replace(chr(39), chr(39) * 2)}'")
        self.sql("GRANT CREATE ON DATABASE postgres TO guard")
        self.sql("CREATE TABLE items (id bigint PRIMARY KEY, body text NOT NULL CHECK (body <> 'refused'))")
        self.sql(f"INSERT INTO items SELECT i, 'row ' || i FROM generate_series(1, {options.rows}) i")
        self.sql("ALTER TABLE items OWNER TO guard")
        self.sql("VACUUM ANALYZE items")

    def guard(self, name, *options, **more):
        return Guard(self.folder / name, self.programs, self.database, self.cache, *options, **more)

    def end_of_log(self):
        return self.sql("SELECT pg_current_wal_insert_lsn()")[0]

    def drop_slot(self, name):
        """When the process that has used it is known to have gone."""
        slot = f"FROM pg_replication_slots WHERE slot_name = 'guard_{name}'"
        wait_until(lambda: self.sql(f"SELECT active {slot}") == ["f"], f"the slot of {name} is free")
        self.sql(f"SELECT pg_drop_replication_slot(slot_name) {slot}")

    def reach(self, guard):
        """Waits until the filter has all that has been committed by now."""
        high, low = self.end_of_log().split("/")
        end = int(high, 16) << 32 | int(low, 16)
        self.sql("SELECT pg_logical_emit_message(true, 'guard', '')")  # something comes after it
        last, since = 0, time.monotonic()
        while last < end:
            now = guard.metrics().get("guard_applied_position", 0)
            if now > last:
                last, since = now, time.monotonic()
            check(time.monotonic() - since < 120, "the follower goes on", guard.folder.name, now, end)
            time.sleep(0.01)

    def audit(self, *guards, most=1000):
        """The filter has exactly one copy for each row, and no row is refused, of `most` that are tried."""
        for guard in guards:
            name = guard.folder.name
            for tries in range(10):  # a server process whose client was killed may still commit
                ids = [int(line) for line in self.sql("SELECT id FROM items")]
                self.reach(guard)
                copies = guard.metrics().get("tamis_keys{name=ids}")
                if copies == len(ids):
                    break
                time.sleep(0.3)
            else:
                check(False, "the filter has one copy for each row", f"{name} has {copies}",
                      f"the table has {len(ids)} rows")
            wait_until(lambda: guard.metrics().get("guard_closed") == 1, f"{name} refuses ids")
            refused = refused_of(guard.port, random.sample(ids, min(most, len(ids))))
            check(not refused, "no row is refused", f"{name} refuses {len(refused)}, such as {refused[:5]}")
        return len(ids)


# ---- each promise alone ----


def walsender(scene, guard):
    """Its process, or none while the guard is about to connect again."""
    return scene.sql("SELECT active_pid FROM pg_replication_slots WHERE active_pid IS NOT NULL"
                     f" AND slot_name = 'guard_{guard.folder.name}'")


def stop_decoding(scene, guard):
    """From now on the guard lags, as the server process that decodes for it does nothing."""
    wait_until(lambda: walsender(scene, guard), "the follower is connected")
    pid = int(walsender(scene, guard)[0])
    os.kill(pid, signal.SIGSTOP)
    return pid


def lag_is_closed(scene, a, b):
    """An id is never refused after its insert was acknowledged, however far the decoder lags."""
    sql, client, other = scene.sql, a.client(), b.client()
    first = 2 * 10**9
    # The database has never reached this position: no client can have been told.
    wait_until(lambda: client.get(WRONG_ID, "FFFF/0").by == "filter", "a token that was made up opens nothing")
    stopped = [stop_decoding(scene, a), stop_decoding(scene, b)]
    try:
        for number in range(first, first + 50):
            written = client.put(number)
            check(written.status == 204, "an insert is acknowledged", written)
            read = client.get(number)
            check(read.status == 200, "the process that inserted an id finds it at once", read)
            read = other.get(number, written.token)
            check(read.status == 200, "another process finds it with the token", read)
        sql(f"INSERT INTO items VALUES ({first + 100}, 'direct')")
        read = client.get(first + 100, scene.end_of_log())
        check(read.status == 200, "what others insert is found with a token", read)
        sql(f"INSERT INTO items VALUES ({first + 101}, 'direct')")
        time.sleep(LAG + 0.05)
        read = client.get(first + 101)
        check(read.status == 200, "what others insert is found after --lag", read)
        check(a.metrics()["guard_closed"] == 0, "a filter that lags is not asked")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    sql(f"DELETE FROM items WHERE id >= {first}")


def changes_of_all_kinds(scene, a, b):
    """Transactions that fail, changed keys, an emptied table."""
    sql, client = scene.sql, a.client()
    first = 3 * 10**9
    for number in range(first, first + 50):
        check(client.put(number, "refused").status == 400, "the database refuses a body")
    sql(f"BEGIN; INSERT INTO items SELECT i, 'gone' FROM generate_series({first}, {first + 999}) i; ROLLBACK")
    sql(f"INSERT INTO items SELECT i, 'here' FROM generate_series({first}, {first + 999}) i")
    sql(f"UPDATE items SET id = id + 5000 WHERE id >= {first}; UPDATE items SET body = 'new' WHERE id >= {first}")
    sql(f"BEGIN; DELETE FROM items WHERE id >= {first}; INSERT INTO items SELECT i, 'again' FROM"
        f" generate_series({first}, {first + 99}) i; SAVEPOINT s; DELETE FROM items WHERE id >= {first};"
        f" ROLLBACK TO s; COMMIT")
    scene.audit(a, b)
    wait_until(lambda: client.get(first + 5000).by == "filter", "a key that was changed is refused")
    sql(f"DELETE FROM items WHERE id >= {first}")
    sql("CREATE TABLE kept AS TABLE items")
    sql("BEGIN; INSERT INTO items VALUES (-1, ''); TRUNCATE items; INSERT INTO items SELECT * FROM kept LIMIT 1000; COMMIT")
    scene.audit(a, b)
    sql("BEGIN; INSERT INTO items SELECT * FROM kept ON CONFLICT DO NOTHING; COMMIT; DROP TABLE kept")
    scene.audit(a, b)


def replaced_rows(scene, a, b):
    """A row that a transaction deletes and inserts again is never refused."""
    first, last = 8 * 10**9, 8 * 10**9 + 19999
    scene.sql(f"INSERT INTO items SELECT i, 'here' FROM generate_series({first}, {last}) i")
    scene.audit(a, b)
    # Ids that come and go in one transaction: removed first, they would not be there, and the table would be read again.
    fills = a.fills()
    scene.sql(f"BEGIN; INSERT INTO items SELECT i, 'brief' FROM generate_series({last + 1}, {last + 100}) i;"
              f" DELETE FROM items WHERE id > {last}; COMMIT")
    scene.reach(a)
    check(a.fills() == fills, "the adds of a transaction come before its removes", a.process.log()[-1500:])

    def work():
        for _ in range(4):
            replace(scene.sql, first, last)
            scene.reach(a)

    replacing = threading.Thread(target=work)
    replacing.start()
    while replacing.is_alive():
        refused = refused_of(a.port, random.sample(range(first, last + 1), 200))
        if refused:
            break
    replacing.join()
    check(not refused, replaced_rows.__doc__.strip("."), f"{len(refused)} are, such as {refused[:5]}")
    scene.sql(f"DELETE FROM items WHERE id >= {first}")


def restarts(scene, a, b):
    """A killed process goes on from what it has saved, and applies each change once."""
    sql = scene.sql
    first = 4 * 10**9
    for step in range(2):
        fills, saves = a.fills(), a.metrics()["guard_saves_total"]
        sql(f"INSERT INTO items SELECT i, 'x' FROM generate_series({first}, {first + 1999}) i")
        scene.reach(a)
        wait_until(lambda: a.metrics()["guard_saves_total"] > saves, "it is saved")
        # These are applied, and reported, but cannot be saved: they come again after the restart.
        a.state.chmod(0o555)
        for part in range(20):
            sql(f"DELETE FROM items WHERE id BETWEEN {first + part * 100} AND {first + part * 100 + 99}")
            sql(f"INSERT INTO items VALUES ({first + 5000 + step * 20 + part}, 'y')")
        scene.reach(a)
        time.sleep(1.5)
        if step == 0:
            a.kill()
        else:
            check(a.process.end() == 0, "SIGTERM ends it with status 0")
        a.state.chmod(0o755)
        sql(f"INSERT INTO items VALUES ({first + 6000 + step}, 'while it was away')")
        a.start()
        scene.audit(a)
        check(a.fills() == fills, "a restart reads the saved filter, and not the table", a.process.log()[-1500:])
    sql(f"DELETE FROM items WHERE id >= {first}")
    scene.audit(a, b)


def broken_streams(scene, a, b):
    """A stream that breaks within a transaction leaves no part of it behind."""
    first = 7 * 10**9
    a.process.signal(signal.SIGSTOP)
    try:
        # More than fits into the buffers between the two processes.
        scene.sql(f"INSERT INTO items SELECT i, repeat('x', 300) FROM generate_series({first}, {first + 49999}) i")
        time.sleep(0.5)
        for pid in walsender(scene, a):
            scene.sql(f"SELECT pg_terminate_backend({pid})")
        time.sleep(0.1)
    finally:
        a.process.signal(signal.SIGCONT)
    scene.audit(a, b)
    scene.sql(f"DELETE FROM items WHERE id >= {first}")


def lost_slots(scene, a, b):
    """Where the log has a gap, the filter is made anew."""
    a.kill()
    fills = a.fills()
    scene.drop_slot("a")
    scene.sql(f"INSERT INTO items VALUES ({5 * 10**9}, 'in the gap'); DELETE FROM items WHERE id = 1")
    scene.sql("SELECT pg_create_logical_replication_slot('guard_a', 'pgoutput')")
    a.start()
    check(a.fills() == fills + 1, "a filter that is behind its slot is made anew")
    scene.audit(a, b)
    scene.sql(f"DELETE FROM items WHERE id = {5 * 10**9}")


def errors(scene, a, b):
    """What fails is said, and costs no wrong answer."""
    a.state.chmod(0o555)
    try:
        scene.sql(f"INSERT INTO items VALUES ({6 * 10**9}, 'x')")
        wait_until(lambda: a.metrics()["guard_save_failures_total"] > 0, "a save fails")
        check(re.search("guard: cannot save .*: Permission denied", a.process.log()), "a save that fails is said")
    finally:
        a.state.chmod(0o755)
    wait_until(lambda: a.metrics()["guard_saved_position"] >= a.metrics()["guard_applied_position"], "it is saved again")
    scene.sql(f"DELETE FROM items WHERE id = {6 * 10**9}")
    # A file of one page is all that the disk has room for.
    limited = scene.guard("limited")
    limited.process.command = ["bash", "-c", "trap '' XFSZ; ulimit -f 4; exec \"$@\"", "bash", *limited.process.command]
    limited.start()
    wait_until(lambda: limited.metrics()["guard_save_failures_total"] > 0, "a save fails")
    check(re.search("guard: cannot save .*: File too large", limited.process.log()), "a full disk is said", limited.process.log())
    check(limited.client().get(WRONG_ID).by == "filter", "it goes on without a disk")
    check(limited.process.end() == 0, "and ends")
    scene.drop_slot("limited")
    stranger = scene.guard("stranger", password="wrong").start(closed=False)
    wait_until(lambda: "password authentication failed" in stranger.process.log(), "a wrong password is said")
    answer = stranger.client().get(WRONG_ID)
    check(answer.status == 503, "without a database, nothing is refused", answer)
    check(stranger.process.end() == 0, "it ends without a database")
    locked = scene.guard("locked")
    del locked.process.environment["PGOPTIONS"]  # it has the limit that is its own
    client = locked.start().client()
    client.put(6 * 10**9)  # now it is connected
    lock = Sql(scene.database)
    lock("BEGIN; LOCK TABLE items")
    answer = client.put(6 * 10**9)
    check(answer.status == 503, "a table that is locked keeps no thread", answer)
    lock("ROLLBACK")
    lock.close()
    check(locked.process.end() == 0, "SIGTERM ends it")
    scene.drop_slot("locked")
    scene.sql(f"DELETE FROM items WHERE id = {6 * 10**9}")
    if not scene.options.short:
        ends_beside_a_server_that_hangs(scene)


def ends_beside_a_server_that_hangs(scene):
    clients = "SELECT pid FROM pg_stat_activity WHERE usename = 'guard' AND backend_type = 'client backend'"
    others = scene.sql(clients)
    guard = scene.guard("hung").start()
    stopped = [int(pid) for pid in scene.sql(clients) if pid not in others]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(2 * LAG)  # so that it waits for an answer
        status = guard.process.end()
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    check(stopped and status == 1 and "the database does not answer" in guard.process.log(),
          "it ends although the server hangs", status, guard.process.log())
    scene.drop_slot("hung")


def other_tables(scene, a, b):
    """Long ids and an empty one, children of the table, another column, a publication that changes, equal texts."""
    sql, long = scene.sql, "x" * 1000
    sql("CREATE TABLE texts (id text PRIMARY KEY, other text UNIQUE, body text); CREATE TABLE child () INHERITS (texts)")
    sql(f"INSERT INTO texts VALUES ('{long}', 'other', ''), ('', 'empty', ''); INSERT INTO child VALUES ('child', '', '')")
    sql("ALTER TABLE texts OWNER TO guard; ALTER TABLE child OWNER TO guard; CREATE PUBLICATION texts FOR TABLE texts")
    guard = scene.guard("texts", "--table", "texts", "--publication", "texts", "--id-type", "text").start()
    client = guard.client()
    check((client.get(long).status, client.get("").status, client.get("y").by) == (200, 200, "filter"), "any text is an id")
    check(guard.metrics()["tamis_keys{name=ids}"] == 2, "rows of another table are none of this one", guard.metrics())
    check(guard.process.end() == 0, "SIGTERM ends it")
    guard.process.command += ["--id", "other"]
    guard.start()
    check(guard.client().get("other").status == 200, "a filter of another column is not used")
    for away in False, True:
        if away:
            guard.kill()
        sql("ALTER PUBLICATION texts SET (publish = 'delete')")
        sql(f"INSERT INTO texts VALUES ('{away}', 'not published {away}', '')")
        sql("ALTER PUBLICATION texts SET (publish = 'insert, update, delete, truncate')")
        fills = guard.fills()
        if away:
            guard.start(closed=False)
        wait_until(lambda: guard.fills() > fills and guard.metrics().get("guard_closed") == 1, "the table is read again")
        check(guard.client().get(f"not%20published%20{away}").status == 200, "what was not published is found")
    check(guard.process.end() == 0, "SIGTERM ends it")
    sql("CREATE COLLATION equal (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    sql("ALTER TABLE texts ALTER other TYPE text COLLATE equal")
    guard.start(closed=False)
    wait_until(lambda: "different texts are equal" in guard.process.log(), "ids that are equal to others are noticed")
    check(guard.process.end() == 0, "SIGTERM ends it")
    scene.drop_slot("texts")
    sql("DROP PUBLICATION texts; DROP TABLE texts CASCADE")


def block_list(scene, a, b):
    """A list is replaced while the program runs; one that is damaged is not taken."""
    if scene.tool is None:
        return "left out, as the tamis command was not found"

    def build(words):
        subprocess.run([scene.tool, "build", "-q", "--fpp", "1e-6", "-o", path], input="\n".join(words) + "\n", text=True,
                       check=True, stderr=subprocess.DEVNULL)
        own(path)

    path = scene.folder / "revoked.tamis"
    build(["old-1", "old-2"])
    guard = scene.guard("listed", "--blocklist", path).start()
    client = guard.client()

    def status(token):
        return client("GET", "/items/2", X_Api_Key=token).status

    check((status("old-1"), status("new-1"), client.get(2).status) == (403, 200, 200), "a token in the list is refused")
    build(["new-1"])
    wait_until(lambda: (status("old-1"), status("new-1")) == (200, 403), "a new list is taken")
    whole = path.read_bytes()
    damaged = own_file(path.with_name("damaged"), whole[: len(whole) // 2])
    damaged.replace(path)
    guard.process.signal(signal.SIGHUP)
    wait_until(lambda: guard.metrics()["guard_list_failures_total"] > 0, "a damaged list is noticed")
    check(status("new-1") == 403, "a damaged list is not taken")
    build(["newest"])
    guard.process.signal(signal.SIGHUP)
    wait_until(lambda: (status("newest"), status("new-1")) == (403, 200), "the next list is taken")
    check(guard.process.end() == 0, "SIGTERM ends it")
    scene.drop_slot("listed")


def own_file(path, data):
    path.write_bytes(data)
    return own(path)


def promises(scene, a, b):
    for promise in (lag_is_closed, changes_of_all_kinds, replaced_rows, restarts, broken_streams, lost_slots, errors,
                    other_tables, block_list):
        begin = time.monotonic()
        result = promise(scene, a, b) or "kept"
        print(f"  {result} ({time.monotonic() - begin:.1f} s): {promise.__doc__}", flush=True)


# ---- the attack ----


def measure(scene, guard, seconds, first, last):
    """Requests a second, the 99th percentile, and how often PostgreSQL itself says that an id was looked up.
    Its processes report what they have done at the latest when they end, with the guard."""
    scans = "SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'items'"
    guard.start(closed=guard.folder.name != "plain")
    before = int(scene.sql(scans)[0])
    requests, rate, slowest = run_load(guard, seconds, first, last)
    check(guard.process.end() == 0, "SIGTERM ends it with status 0")
    wait_until(lambda: scene.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'guard'") == ["0"], "it has gone")
    queries = int(scene.sql(scans)[0]) - before
    return rate, slowest, queries, queries / requests


def attack(scene, a, b):
    plain = scene.guard("plain", "--plain", "--cache", 3600).start(closed=False)
    refused_of(plain.port, range(1, scene.options.rows + 1))  # now they are in the cache
    # At the default rate.  A follower that gets no processor must not count as one that lags.
    attacked = scene.guard("attacked", "--fpp", 0.001, "--lag", 60000).start()
    for guard in (a, b, plain, attacked):
        guard.process.end()
    seconds, rounds = (2, 1) if scene.options.short else (5, 5)
    loads = {"ids that do not exist": (WRONG_ID, 2 * WRONG_ID), "existing ids, cached": (2, scene.options.rows)}
    figures = {(load, name): [] for load in loads for name in ("without", "with")}
    for _ in range(rounds):
        for load, (first, last) in loads.items():
            for name, guard in (("without", plain), ("with", attacked)):
                figures[load, name].append(measure(scene, guard, seconds, first, last))
    rows = [("requests for", "guard", "requests/s", "99 % within", "queries", "queries/request")]
    middle = {key: [statistics.median(column) for column in zip(*values)] for key, values in figures.items()}
    for (load, name), (rate, slowest, queries, part) in middle.items():
        rows.append((load, name, f"{rate:.0f}", f"{slowest:.2f} ms", f"{queries:.0f}", f"{part:.5f}"))
    table(rows)
    legend({"guard": "without it, a cache in front of the database; with it, the filter in front of both",
            "requests/s": "answered by one process, to 16 connections",
            "99 % within": "how long 99 of 100 requests took at most",
            "queries": "how often the database looked an id up, by its own count",
            "queries/request": "what one request costs the database"})
    before, after = (middle["ids that do not exist", name][3] for name in ("without", "with"))
    existing = middle["existing ids, cached", "with"][3]
    check(before > 0.9, "without the guard each wrong id reaches the database", before)
    check(after < 0.01 * before, "queries that reach the database fall by 99 %", before, after)
    scene.drop_slot("attacked")
    a.start()
    b.start()
    return (f"for 100,000 ids that do not exist, the database is asked {1e5 * before:.0f} times without the guard, and"
            f" {1e5 * after:.0f} times with it; for as many that exist and are cached, {1e5 * existing:.0f} times")


# ---- all ----

STAGES = {"promises": promises, "attack": attack, "kills": kills}


def main(folder, options):
    scene = Scene(folder, options)
    a = scene.guard("a").start()
    b = scene.guard("b").start()
    try:
        for name in options.only:
            print(f"{name}:", flush=True)
            result = STAGES[name](scene, a, b)
            if result:
                print(f"  {result}", flush=True)
        for guard in (a, b):
            check(guard.process.end() == 0, "SIGTERM ends it with status 0")
    except (Broken, AssertionError) as error:
        print(error)
        for guard in (a, b):
            print(f"--- {guard.folder.name}\n{guard.process.log()[-2500:]}", file=sys.stderr)
        if not isinstance(error, Broken):
            raise
        return False
    print("all promises were kept")
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[2].strip())
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", nargs="+", choices=STAGES, default=list(STAGES))
    given = parser.parse_args()
    given.seconds = given.seconds or (8 if given.short else 60)
    given.rows = given.rows or (20000 if given.short else 200000)
    print(f"seed {given.seed}", flush=True)
    supervised(lambda folder: main(folder, given))
