#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""State that is never lost and never lies: restarts from RDB and AOF, DUMP and RESTORE, COPY, RENAME,
MIGRATE, and filters that are half restored.  A filter that comes back gives the same
answers as before, false positives too.

    test_persistence.py --server redis|valkey --module PATH [WORD ...]
"""
import random
import time

import server as servers
from filters import ABSENT, answers, chunks, compare, fill
from server import ReplyError, same, wait_until

# ---- RDB and AOF ----


def test_restart_from_rdb(context):
    server = context.start()
    fill(server)
    before = answers(server)
    assert 1 in before[b"bloom"][1], "no false positive to compare"
    server("SAVE")
    server.kill()
    server.restart()
    compare(before, answers(server), "after a restart from RDB")
    server("BGSAVE")
    wait_until(lambda: server.client.info("persistence", "rdb_bgsave_in_progress") == 0, "BGSAVE")
    same(server.client.info("persistence", "rdb_last_bgsave_status"), "ok")
    server.kill()
    server.restart()
    compare(before, answers(server), "after a second one")
    # Filters that were loaded go on as those that were not.
    server("CF.INSERT", "cuckoo", "ITEMS", *range(10000, 12000))
    same(server("CF.MEXISTS", "cuckoo", *range(10000, 12000)).count(1), 2000)


def restart_from_aof(context, preamble):
    options = ("--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", preamble,
               "--auto-aof-rewrite-percentage", "0")
    server = context.start(*options)
    fill(server)
    before = answers(server)
    server.kill()
    server.restart()
    compare(before, answers(server), "after a restart from increments")
    server("BGREWRITEAOF")
    wait_until(lambda: server.client.info("persistence", "aof_rewrite_in_progress") == 0 and
               server.client.info("persistence", "aof_rewrite_scheduled") == 0, "the rewrite")
    same(server.client.info("persistence", "aof_last_bgrewrite_status"), "ok")
    server.kill()
    server.restart()
    compare(before, answers(server), "after a restart from the base")
    server("BF.MADD", "bloom", *ABSENT[:500])
    server("CF.INSERT", "cuckoo", "ITEMS", *ABSENT[:500])
    server("CF.DEL", "cuckoo", 1)
    server("BF.ADD", "made late", "a")
    before = answers(server)
    server.kill()
    server.restart()
    compare(before, answers(server), "after a restart from base and increments")


def test_restart_from_aof(context):
    restart_from_aof(context, "no")


def test_restart_from_aof_with_preamble(context):
    restart_from_aof(context, "yes")


def test_adds_during_rewrite(context):
    server = context.start("--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no",
                           "--auto-aof-rewrite-percentage", "0")
    fill(server)
    server("CF.RESERVE", "large cuckoo", "100")
    server("BGREWRITEAOF")
    for start in range(0, 20000, 500):
        server("CF.INSERT", "large cuckoo", "ITEMS", *range(start, start + 500))
        server("BF.MADD", "bloom", *range(start, start + 500))
    wait_until(lambda: server.client.info("persistence", "aof_rewrite_in_progress") == 0, "the rewrite")
    before = answers(server, 20000)
    server.kill()
    server.restart()
    compare(before, answers(server, 20000), "adds during a rewrite")


def test_debug_reload(context):
    server = context.start()
    fill(server)
    before = answers(server)
    server("DEBUG", "RELOAD")
    compare(before, answers(server), "DEBUG RELOAD")


def test_forks_while_filters_are_freed(context):
    """A child that saves must not wait for a lock that a thread of its parent held."""
    server = context.start()
    fill(server, 500)
    for number in range(25):
        for i in range(3):
            server("CF.INSERT", f"large cuckoo {i}", "ITEMS", *range(4000))
        for i in range(3):
            server("UNLINK", f"large cuckoo {i}")
        server("BGSAVE" if number % 2 else "BGREWRITEAOF")
        wait_until(lambda: server.client.info("persistence", "rdb_bgsave_in_progress") == 0 and
                   server.client.info("persistence", "aof_rewrite_in_progress") == 0, f"child {number} ends")
    same(server.client.info("persistence", "rdb_last_bgsave_status"), "ok")


# ---- one key ----


def test_dump_and_restore(context):
    server = context.start()
    fill(server)
    before = answers(server)
    dumps = {key: server("DUMP", key) for key in before}
    for key, dump in dumps.items():
        server("RESTORE", key + b" again", "0", dump)
        same(server.error("RESTORE", key, "0", dump)[:7], "BUSYKEY")
        same(server("RESTORE", key, "0", dump, "REPLACE"), "OK")
        assert server("DUMP", key + b" again") == dump, f"{key}: DUMP differs after RESTORE"
        server("DEL", key + b" again")
    compare(before, answers(server), "RESTORE REPLACE")
    # A DUMP is of the first server's making; the other one takes it, and gives the same answers.
    if not context.other():
        print("# RESTORE in the other server: skipped, it is not installed")
        return
    other = context.start(kind=context.other())
    readable = rdb_version(other) >= rdb_version(server)
    for key, dump in dumps.items():
        if readable:
            other("RESTORE", key, "0", dump)
        else:  # the footer says which version made it, and only a later one reads it
            assert "DUMP payload version" in other.error("RESTORE", key, "0", dump)
    if readable:
        compare(before, answers(other), "RESTORE in the other server")


def rdb_version(server):
    server("SET", "probe", "x")
    version = int.from_bytes(server("DUMP", "probe")[-10:-8], "little")
    server("DEL", "probe")
    return version


def test_chunks_between_servers(context):
    """SCANDUMP and LOADCHUNK carry filters between servers of any versions."""
    kind = context.other()
    if not kind:
        print("# skipped: the other server is not installed")
        return
    server, other = context.start(), context.start(kind=kind)
    fill(server)
    server("DEL", "empty cuckoo")  # has no chunks
    for key in server("KEYS", "*"):
        name = "CF" if b"cuckoo" in key or key == b"still" else "BF"
        for cursor, data in chunks(server, name, key):
            other(f"{name}.LOADCHUNK", key, cursor, data)
    compare(answers(server), answers(other), "chunks")


def test_migrate(context):
    server, target = context.start(), context.start()
    fill(server)
    before = answers(server)
    server("MIGRATE", "127.0.0.1", target.port, "", "0", "60000", "KEYS", *before)
    same(server("DBSIZE"), 0)
    compare(before, answers(target), "MIGRATE")


# ---- half restored ----


REFUSED = {  # every other command on a filter that is half restored
    "BF": ("BF.ADD {} a", "BF.MADD {} a b", "BF.INSERT {} ITEMS a", "BF.EXISTS {} a", "BF.MEXISTS {} a", "BF.CARD {}",
           "BF.INFO {}", "BF.SCANDUMP {} 0", "BF.RESERVE {} 0.01 100", "BF.MERGE {} {}", "BF.MERGE other {}"),
    "CF": ("CF.ADD {} a", "CF.ADDNX {} a", "CF.INSERT {} ITEMS a", "CF.INSERTNX {} ITEMS a", "CF.EXISTS {} a",
           "CF.MEXISTS {} a", "CF.DEL {} a", "CF.COUNT {} a", "CF.COMPACT {}", "CF.INFO {}", "CF.SCANDUMP {} 0",
           "CF.RESERVE {} 100", "CF.MERGE {} {}", "CF.MERGE other {}"),
}


def refuses_all(client, kind, key):
    for call in REFUSED[kind]:
        text = client.error(*call.format(key, key).split())
        assert "wrong number" not in text, text


def test_half_restored(context):
    for kind, reserve in (("BF", ("0.001", "3000000")), ("CF", ("3000000", ))):
        server = context.start("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
        server(f"{kind}.RESERVE", "f", *reserve)
        for start in range(0, 20000, 1000):
            words = range(start, start + 1000)
            server(*([f"{kind}.INSERT", "f", "ITEMS", *words]))
        pieces = chunks(server, kind, "f")
        assert len(pieces) >= 2, f"one chunk of {len(pieces[0][1])} bytes: there is no half"
        before = [server(f"{kind}.MEXISTS", "f", *words) for words in (range(20000), ABSENT)]
        middle = len(pieces) // 2
        for cursor, data in pieces[:middle]:
            server(f"{kind}.LOADCHUNK", "g", cursor, data)
        refuses_all(server, kind, "g")
        same(server("EXISTS", "g"), 1)
        # It stays in that state wherever it goes.
        server("COPY", "g", "copy")
        refuses_all(server, kind, "copy")
        server("RENAME", "copy", "renamed")
        server("RESTORE", "restored", "0", server("DUMP", "g"))
        refuses_all(server, kind, "restored")
        server.kill()
        server.restart()  # from the increments of the AOF
        refuses_all(server, kind, "g")
        server("BGREWRITEAOF")
        wait_until(lambda: server.client.info("persistence", "aof_rewrite_in_progress") == 0, "the rewrite")
        server.kill()
        server.restart()  # from its base
        refuses_all(server, kind, "renamed")
        server("DEBUG", "RELOAD")
        # All of them can be resumed, and are then the filter that was dumped.
        for key in ("g", "renamed", "restored"):
            refuses_all(server, kind, key)
            for cursor, data in pieces[middle:]:
                same(server(f"{kind}.LOADCHUNK", key, cursor, data), "OK")
            after = [server(f"{kind}.MEXISTS", key, *words) for words in (range(20000), ABSENT)]
            assert after == before, key
            same(chunks(server, kind, key), pieces)
        server.kill()


SHAPES = {  # of several chunks, with the items below in
    "bloom": ("BF", "1e-9", "400000"), "window": ("BF", "1e-6", "800000", "WINDOW", "2"),
    "cuckoo": ("CF", "1000", "ERROR", "1e-6"), "still": ("CF", "800000", "EXPANSION", "0", "ERROR", "1e-6"),
    "recent": ("CF", "800000", "WINDOW", "2", "ERROR", "1e-6")}
OLD, OTHERS = range(150_000), range(10**6, 10**6 + 250_000)


def insert(server, kind, key, numbers, size=5000):
    server.client.pipeline(([f"{kind}.INSERT", key, "ITEMS", *numbers[i:i + size]]
                            for i in range(0, len(numbers), size)), depth=4)


def change(server, kind, key, number):
    """Adds items, so that others move and the filter grows, and removes some that may be anywhere."""
    start = 10**6 + number * 10_000
    insert(server, kind, key, range(2 * 10**6 + start, 2 * 10**6 + start + 10_000))
    server.client.pipeline(["CF.DEL", key, i] for i in range(start, start + 10_000) if kind == "CF")


def test_dump_of_a_filter_that_changes(context):
    """What was in before a dump began, and is not removed before it ends, is in what is loaded from it."""
    server = context.start(arguments=("max-bytes", "0"))
    for key, (kind, *reserve) in SHAPES.items():
        server(f"{kind}.RESERVE", key, *reserve)
        insert(server, kind, key, [*OLD, *OTHERS[:250_000 if kind == "CF" else 100_000]])
        cursor, number = 0, 0
        while True:
            again = cursor
            cursor, data = server(f"{kind}.SCANDUMP", key, cursor)
            if cursor == 0:
                break
            same(server(f"{kind}.SCANDUMP", key, again), [cursor, data], "once more") if again else None
            same(server(f"{kind}.LOADCHUNK", "copy", cursor, data), "OK")
            if number in (0, 2) and key in ("window", "recent"):
                server(f"{kind}.ADVANCE", key)
            change(server, kind, key, number)
            if number == 1:
                server("BGSAVE")
            number += 1
        assert number > 2, (key, number)
        for start in range(0, len(OLD), 5000):
            found = server(f"{kind}.MEXISTS", "copy", *OLD[start:start + 5000])
            same(found.count(1), len(found), f"{key} from {start} on")
        wait_until(lambda: server.client.info("persistence", "rdb_bgsave_in_progress") == 0, "BGSAVE")
        same(server.client.info("persistence", "rdb_last_bgsave_status"), "ok")
        server("FLUSHALL")


def test_dumps_end(context):
    """A dump ends with its filter, whatever frees that; with a restart it goes on, unless the filter has changed."""
    server = context.start()
    used = server.client.info("memory", "used_memory")
    ends = ("DEL f", "UNLINK f", "FLUSHALL ASYNC", "COPY small f REPLACE", "SET f x", "BF.MERGE f f layers")
    for end in ends:
        server("BF.RESERVE", "f", "0.001", "1000000", "SEED", "1")
        server("BF.RESERVE", "layers", "0.001", "1000000", "SEED", "1")
        server("BF.ADD", "small", "x")
        server("BF.ADD", "layers", "x")
        insert(server, "BF", "f", OLD)
        begun = [server("BF.SCANDUMP", "f", 0) for _ in range(9)]
        same(len({cursor for cursor, _ in begun[-8:]}), 8)
        server(*end.split())
        reply = server.client.pipeline([["BF.SCANDUMP", "f", begun[-1][0]]])[0]
        assert isinstance(reply, ReplyError), f"{end}: {reply!r:.80}"
        server("FLUSHALL")
        wait_until(lambda: server.client.info("memory", "lazyfree_pending_objects") == 0, "nothing is to be freed")
        now = server.client.info("memory", "used_memory")
        assert now < used + 1_000_000, f"{now - used} bytes stay after {end}"
    server("CF.RESERVE", "f", *SHAPES["still"][1:])
    insert(server, "CF", "f", OLD)
    pieces = chunks(server, "CF", "f")
    same(server("CF.SCANDUMP", "f", pieces[-1][0]), [0, None], "the end again")
    server("SAVE")
    server.kill()
    server.restart()
    same([tuple(server("CF.SCANDUMP", "f", cursor)) for cursor, _ in pieces[:-1]], pieces[1:])
    server("RENAME", "f", "g")
    same(server("CF.SCANDUMP", "g", pieces[0][0]), list(pieces[1]))
    server.kill()
    server.restart()
    server("CF.ADD", "f", "changed")
    assert "begin again" in server.error("CF.SCANDUMP", "f", pieces[0][0])


# ---- killed ----


def test_killed_while_adding(context):
    """Every add that was acknowledged is there after kill -9, with appendfsync always."""
    server = context.start("--appendonly", "yes", "--appendfsync", "always")
    client, acknowledged = server.connect(), 0
    for i in range(4000):
        client.send(["BF.ADD", "f", i], ["CF.ADD", "g", i])
    until = time.monotonic() + 0.2 + random.random() / 5
    while acknowledged < 2 or time.monotonic() < until and acknowledged < 8000:
        client.receive()
        acknowledged += 1
    server.kill()
    server.restart()
    done = acknowledged // 2
    same(server("BF.MEXISTS", "f", *range(done)).count(1), done)
    same(server("CF.MEXISTS", "g", *range(done)).count(1), done)


if __name__ == "__main__":
    servers.run(globals(), __doc__)
