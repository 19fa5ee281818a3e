# SPDX-License-Identifier: MIT
"""State that is never lost and never lies: DUMP and RESTORE, saves and dumps while filters change.  Restarts after kill -9, and
filters that are half restored, are in test_random.py."""
from filters import FOOTER, ask, chunks, fill, insert, kind_of, load
from server import ReplyError, same, wait_until


def test_adds_during_rewrite(context):
    server = context.start("--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no",
                           "--auto-aof-rewrite-percentage", "0")
    fill(server)
    server("CF.RESERVE", "large cuckoo", "100")
    server("BGREWRITEAOF")
    for start in range(0, 20000, 500):
        server("CF.INSERT", "large cuckoo", "ITEMS", *range(start, start + 500))
        server("BF.MADD", "bloom", *range(start, start + 500))
    server.wait_for_rewrite()
    before = all_chunks(server)
    server.kill()
    server.start()
    assert all_chunks(server) == before


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


def all_chunks(server):
    """What dumps of all filters have: their bits, and all that they answer."""
    return {key: chunks(server, kind_of(key), key) for key in sorted(server("KEYS", "*"))}


def test_dump_and_restore(context):
    """A server takes what DUMP gives, and so does the other one, if its version is not older; chunks go between any."""
    server = context.start()
    fill(server)
    before = all_chunks(server)
    for other in (server, *([context.start(kind=context.other())] if context.other() else [])):
        for key in before:
            dump = server("DUMP", key)
            if rdb_version(other) < rdb_version(server):  # the footer says which version made it
                assert "DUMP payload version" in other.error("RESTORE", key, "0", dump)
            else:
                same(other("RESTORE", key, "0", dump, "REPLACE"), "OK")
                same(other("DUMP", key)[:-FOOTER], dump[:-FOOTER])
        assert all_chunks(other) in (before, {})
    before = {key: pieces for key, pieces in before.items() if pieces}  # not the empty cuckoo filter
    other("FLUSHALL")
    for key, pieces in before.items():
        load(other, kind_of(key), key, pieces)
    assert all_chunks(other) == before


def rdb_version(server):
    server("SET", "probe", "x")
    version = int.from_bytes(server("DUMP", "probe")[-FOOTER:-8], "little")
    server("DEL", "probe")
    return version


SHAPES = {  # of several chunks, with the items below in
    "bloom": ("BF", "1e-9", "400000"), "window": ("BF", "1e-6", "800000", "WINDOW", "2"),
    "cuckoo": ("CF", "1000", "ERROR", "1e-6"), "still": ("CF", "800000", "EXPANSION", "0", "ERROR", "1e-6"),
    "recent": ("CF", "800000", "WINDOW", "2", "ERROR", "1e-6")}
OLD, OTHERS = range(150_000), range(10**6, 10**6 + 250_000)


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
        same(ask(server, kind, "copy", OLD).count(0), 0, key)
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
    begun = [server("CF.SCANDUMP", "f", 0)[0] for _ in range(8)]
    server("SAVE")
    server.kill()
    server.start()
    same([len(server("CF.SCANDUMP", "f", cursor)[1]) for cursor in reversed(begun)], 8 * [len(pieces[1][1])])
    same([tuple(server("CF.SCANDUMP", "f", cursor)) for cursor, _ in pieces[:-1]], pieces[1:])
    server("RENAME", "f", "g")
    same(server("CF.SCANDUMP", "g", pieces[0][0]), list(pieces[1]))
    server.kill()
    server.start()
    server("CF.ADD", "f", "changed")
    assert "begin again" in server.error("CF.SCANDUMP", "f", pieces[0][0])
