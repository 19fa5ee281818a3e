#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Replicas are bit for bit alike: after full syncs from disk and without one, after what was propagated, and
after partial syncs.  What changes nothing is not propagated.

    test_replication.py --server redis|valkey --module PATH [WORD ...]
"""
import os
import time
from random import Random

import server as servers
from filters import answers, chunks, compare, fill
from server import ReplyError, Skip, same, wait_until


def replicate(replica, master):
    replica("REPLICAOF", "127.0.0.1", master.port)
    wait_until(lambda: replica.client.info("replication", "master_link_status") == "up", "a full sync")


def caught_up(master, replica):
    def equal():
        return replica.client.info("replication", "master_repl_offset") >= offset
    offset = master.client.info("replication", "master_repl_offset")
    wait_until(equal, "the replica has all")


def strict(server):
    """Where the server has it, an error that the replication stream brings ends the replica."""
    try:
        server("CONFIG", "SET", "propagation-error-behavior", "panic")
    except ReplyError as error:
        print(f"# propagation-error-behavior: {error}")


def replication(context, *options):
    master, replica = context.start(*options), context.start(*options)
    fill(master)
    replicate(replica, master)
    strict(replica)
    compare(answers(master), answers(replica), "a full sync")
    fill_more(master)
    caught_up(master, replica)
    compare(answers(master), answers(replica), "what was propagated")
    for key in master("KEYS", "*"):
        if key == b"full":
            continue  # a filter notes that it has refused a key, which is not propagated
        assert master("DUMP", key) == replica("DUMP", key), f"{key}: not bit for bit alike"
    same(master("DEBUG", "DIGEST"), replica("DEBUG", "DIGEST"), "digests of all keys")
    assert "READONLY" in replica.error("BF.ADD", "bloom", "b")
    # The link breaks, and the backlog brings what was missed.
    before = master.client.info("stats", "sync_partial_ok")
    master("CLIENT", "KILL", "TYPE", "replica")
    master("BF.MADD", "bloom", *range(50000, 50100))
    wait_until(lambda: master.client.info("stats", "sync_partial_ok") > before, "a partial sync")
    caught_up(master, replica)
    compare(answers(master), answers(replica), "a partial sync")
    assert replica.alive()
    # The replica takes over, and goes on.
    master.kill()
    replica("REPLICAOF", "NO", "ONE")
    more = [f"after the failover {i}" for i in range(20)]  # some may be false positives
    assert sum(replica("BF.MADD", "bloom", *more)) > 10
    same(replica("CF.INSERT", "cuckoo", "ITEMS", *more), [1] * 20)


def fill_more(client):
    """Commands of every sort, after the full sync."""
    client("BF.RESERVE", "late", "0.05", "100")
    client("BF.MADD", "late", *range(1000))
    client("BF.INSERT", "late 2", "CAPACITY", "10", "ERROR", "0.05", "ITEMS", *range(500))
    client("BF.ADD", "late 3", "a")
    client("CF.RESERVE", "late cuckoo", "50")
    client("CF.INSERT", "late cuckoo", "ITEMS", *range(1000))
    client("CF.INSERTNX", "late cuckoo 2", "CAPACITY", "50", "ITEMS", *range(500))
    client("CF.ADD", "late cuckoo 3", "a")
    client.client.pipeline([["CF.DEL", "late cuckoo", i] for i in range(0, 1000, 2)])
    client("CF.COMPACT", "late cuckoo")
    client("BF.RESERVE", "full", "0.05", "10", "NONSCALING")
    client.client.pipeline([["BF.ADD", "full", i] for i in range(30)])
    client("BF.MADD", "full", *range(30))
    client("EVAL", "redis.call('BF.ADD', KEYS[1], 'x') redis.call('CF.ADD', KEYS[2], 'x')", "2", "by lua",
           "by lua cuckoo")
    client("MULTI")
    client("BF.ADD", "by multi", "a")
    client("CF.ADD", "by multi cuckoo", "a")
    client("EXEC")
    for name, key in (("BF", "late"), ("CF", "late cuckoo")):
        for cursor, data in chunks(client, name, key):
            client(f"{name}.LOADCHUNK", f"chunks of {key}", cursor, data)
    client("COPY", "late cuckoo", "copied cuckoo")
    client("RENAME", "late 2", "renamed")
    client("BF.MERGE", "late united", "late")
    client("CF.MERGE", "late cuckoo united", "late cuckoo")
    client("BF.MADD", "late united", *range(5000, 6000))
    client("BF.MERGE", "late united", "late")  # in place, as it has more layers
    client("UNLINK", "late 3")


def test_replication(context):
    replication(context, "--repl-diskless-sync", "no")


def test_replication_diskless(context):
    replication(context, "--repl-diskless-sync", "yes", "--repl-diskless-load", "swapdb")


def test_another_machine(context):
    """A replica with another libm and other cores plans the same filters, and their growth."""
    library = os.path.join(os.path.dirname(context.module), "tests", "other_machine.so")
    if not os.path.exists(library):
        raise Skip(f"{library} is not there")
    master, replica = context.start(), context.start(preload=library)
    replicate(replica, master)
    strict(replica)
    fill(master)
    fill_more(master)
    for i, rate in enumerate(("0.3", "0.02", "0.003", "1e-4", "1e-7", "1e-12")):
        for capacity in (7, 100, 12345, 400000):
            for options in ("", "NONSCALING", "WINDOW 3")[: 2 if float(rate) < 1e-6 else 3]:
                master("BF.RESERVE", f"{rate} {capacity} {options}", rate, capacity, *options.split())
            master("CF.RESERVE", f"cuckoo {rate} {capacity}", capacity, "ERROR", max(float(rate), 1e-7), "EXPANSION", i % 2)
    caught_up(master, replica)
    keys = master("KEYS", "*")
    assert len(keys) > 90
    for key in keys:
        assert key == b"full" or master("DUMP", key) == replica("DUMP", key), f"{key}: not bit for bit alike"


def test_half_restored_on_replicas(context):
    """A full sync brings the chunks so far, and the others are propagated."""
    master, replica = context.start(), context.start()
    pieces = {}
    for kind, reserve in (("BF", ("0.001", "3000000")), ("CF", ("3000000", ))):
        master(f"{kind}.RESERVE", "f", *reserve)
        master(f"{kind}.INSERT", "f", "ITEMS", *range(30000))  # so that few lines are empty
        pieces[kind] = chunks(master, kind, "f")
        master("DEL", "f")
        master(f"{kind}.LOADCHUNK", kind, *pieces[kind][0])
    replicate(replica, master)
    strict(replica)
    for kind in pieces:
        replica.error(f"{kind}.EXISTS", kind, "1")
        for cursor, data in pieces[kind][1:]:
            master.error(f"{kind}.LOADCHUNK", kind, cursor, data[:-1])
            master(f"{kind}.LOADCHUNK", kind, cursor, data)
    caught_up(master, replica)
    for kind in pieces:
        same(replica(f"{kind}.MEXISTS", kind, *range(1000)), [1] * 1000)
        assert master("DUMP", kind) == replica("DUMP", kind)


def test_windows(context):
    """Periods end on a replica, and after a restart, where they ended on the master."""
    options = ("--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
    master, replica = context.start(*options), context.start()
    replicate(replica, master)
    strict(replica)
    names = {}
    for kind, reserve in (("BF", ("0.05", "500")), ("CF", ("500", "ERROR", "0.05"))):
        for name, extra in (("plain", ()), ("clock", ("EVERY", "200")), ("renews", ("RENEWS", )),
                            ("both", ("EVERY", "200", "RENEWS"))):
            names[f"{kind} {name}"] = kind
            master(f"{kind}.RESERVE", f"{kind} {name}", *reserve, "WINDOW", "4", *extra)
    for step in range(8):
        for name, kind in names.items():
            items = range(step * 100, step * 100 + 300)
            if kind == "BF":
                master("BF.MADD", name, *items)
            else:
                master("CF.INSERTNX", name, "ITEMS", *items)
                master("CF.ADDNX", name, items[0])
                master("CF.INSERT", name, "ITEMS", *items[:50], *items[:50])
                master("CF.ADD", name, items[60])
                master.client.pipeline([["CF.DEL", name, item] for item in items[:60:3]])
        for kind in ("BF", "CF"):
            master(f"{kind}.ADVANCE", f"{kind} plain")
            master(f"{kind}.ADVANCE", f"{kind} renews", "2")
        time.sleep(0.1)
    caught_up(master, replica)
    dumps = {name: master("DUMP", name) for name in names}
    same({name: replica("DUMP", name) for name in names} == dumps, True, "bit for bit alike")
    master.kill()
    master.restart()
    same({name: master("DUMP", name) for name in names} == dumps, True, "after a restart from increments")
    master("BGREWRITEAOF")
    wait_until(lambda: master.client.info("persistence", "aof_rewrite_in_progress") == 0 and
               master.client.info("persistence", "aof_rewrite_scheduled") == 0, "the rewrite")
    master.kill()
    master.restart()
    same({name: master("DUMP", name) for name in names} == dumps, True, "after a restart from the base")


def test_windows_at_the_limit(context):
    """A window that meets its limit refuses adds, and a replica has what its master has."""
    master, replica = context.start(), context.start()
    replicate(replica, master)
    strict(replica)
    for number, (expansion, extra) in enumerate(((1, ()), (1, ("RENEWS", )), (0, ()))):
        name, random = f"w{number}", Random(number)
        master("CF.RESERVE", name, "1000", "MAXBYTES", "30000", "EXPANSION", expansion, "WINDOW", "3", *extra)
        refused = 0
        for _ in range(20):
            words = [random.choice(("CF.ADD", "CF.ADD", "CF.ADDNX")) for _ in range(2000)]
            replies = master.client.pipeline([[word, name, random.randrange(20000)] for word in words])
            refused += sum(isinstance(reply, ReplyError) for reply in replies)
            master.client.pipeline([["CF.DEL", name, item] for item in range(200)])
            master("CF.ADVANCE", name)
        assert refused, "the limit is met"
        caught_up(master, replica)
        same(master("DUMP", name) == replica("DUMP", name), True, "bit for bit alike")


def test_nothing_to_propagate(context):
    """An add that changes nothing is no write: it dirties nothing and reaches no replica."""
    server = context.start("--appendonly", "yes", "--appendfsync", "no")  # so that no write waits for the disk
    server("BF.MADD", "b", *range(100))
    server("CF.RESERVE", "c", "1000", "ERROR", "1e-6")
    server("CF.INSERT", "c", "ITEMS", *range(100))
    server("BF.RESERVE", "full", "1e-6", "2", "NONSCALING")
    server("BF.MADD", "full", "a", "b")

    def state():
        return (server.client.info("persistence", "rdb_changes_since_last_save"),
                server.client.info("persistence", "aof_current_size"))
    before = state()
    for i in range(100):
        server("BF.ADD", "b", i)
        server("CF.ADDNX", "c", i)
    server("BF.MADD", "b", *range(100))
    server("BF.INSERT", "b", "ITEMS", *range(100))
    server("CF.INSERTNX", "c", "ITEMS", *range(100))
    server("CF.DEL", "c", "absent")
    server.error("BF.ADD", "full", "c")
    server.error("BF.INSERT", "missing", "NOCREATE", "ITEMS", "a")
    same(state(), before)


def test_wait(context):
    master, replica = context.start(), context.start()
    replicate(replica, master)
    master("BF.ADD", "f", "a")
    same(master("WAIT", "1", "50000"), 1)
    same(replica("BF.EXISTS", "f", "a"), 1)


if __name__ == "__main__":
    servers.run(globals(), __doc__)
