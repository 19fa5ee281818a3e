# SPDX-License-Identifier: MIT
"""Filters of every shape in a server, and their chunks."""
from server import ReplyError, same

KEYS = 3000
FOOTER = 10  # of a payload of DUMP: the version of RDB, and a checksum


def fill(server, size=KEYS):
    """Filters of every shape."""
    server("BF.RESERVE", "bloom", "0.05", "1000")  # a high rate, so that false positives are compared
    server("BF.RESERVE", "fixed", "0.05", size, "NONSCALING")
    server("CF.RESERVE", "cuckoo", "100", "SEED", "1")
    server("CF.RESERVE", "still", size * 2, "EXPANSION", "0", "BUCKETSIZE", "4")
    for start in range(0, size, 500):
        keys = range(start, min(start + 500, size))
        for name in ("bloom", "fixed"):
            server("BF.MADD", name, *keys)
        for name in ("cuckoo", "still"):
            server("CF.INSERT", name, "ITEMS", *keys)
    server.client.pipeline([["CF.ADD", "cuckoo", "copies"]] * 20)
    server.client.pipeline([["CF.DEL", "cuckoo", i] for i in range(0, size, 3)])
    server("BF.RESERVE", "window", "0.05", "1000", "WINDOW", "3")
    server("CF.RESERVE", "cuckoo window", "1000", "ERROR", "0.05", "WINDOW", "3", "RENEWS")
    for start in range(0, size, 500):
        server("BF.MADD", "window", *range(start, start + 500))
        server("CF.INSERT", "cuckoo window", "ITEMS", *range(start, start + 500), *range(0, 30))
        server("BF.ADVANCE", "window")
        server("CF.ADVANCE", "cuckoo window")
    server.client.pipeline([["CF.DEL", "cuckoo window", i] for i in range(0, 20)])
    server("BF.ADD", "default", "a")
    server("CF.ADD", "default cuckoo", "a")
    server("BF.RESERVE", "empty", "0.01", "100")
    server("CF.RESERVE", "empty cuckoo", "100")


def kind_of(key):
    return "CF" if b"cuckoo" in key or key == b"still" else "BF"


def chunks(client, kind, key):
    found, cursor = [], 0
    while True:
        cursor, data = client(f"{kind}.SCANDUMP", key, cursor)
        if cursor == 0:
            return found
        found.append((cursor, data))


def load(client, kind, key, pieces):
    """Restores a filter of which these are the chunks."""
    for cursor, data in pieces:
        same(client(f"{kind}.LOADCHUNK", key, cursor, data), "OK")


def through_everything(server, kind, key):
    """What COPY, chunks and DUMP make of a filter is equal to it, and all stay so in an RDB file and an AOF."""
    server("COPY", key, "copy")
    load(server, kind, "chunks", chunks(server, kind, key))
    server("RESTORE", "restored", "0", server("DUMP", key))
    keys = (key, "copy", "chunks", "restored")
    same(len(set(server("DEBUG", "DIGEST-VALUE", *keys))), 1, key)
    through_files(server, keys)


def through_files(server, keys):
    """Filters stay as they are in an RDB file and in an AOF."""
    digests = server("DEBUG", "DIGEST-VALUE", *keys)
    server("DEBUG", "RELOAD")
    same(server("DEBUG", "DIGEST-VALUE", *keys), digests, "RDB")
    server("CONFIG", "SET", "aof-use-rdb-preamble", "no", "appendonly", "yes")
    server.wait_for_rewrite()
    server("DEBUG", "LOADAOF")
    same(server("DEBUG", "DIGEST-VALUE", *keys), digests, "AOF")
    server("CONFIG", "SET", "appendonly", "no")


def trusting(server):
    """Makes a server that does not look at the checksums of RESTORE.  Returns the footer that it wants."""
    server("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1")
    server("CONFIG", "SET", "rdbcompression", "no")
    server("SET", "x", "x")
    footer = server("DUMP", "x")[-FOOTER:]
    server("DEL", "x")
    return footer


def ask(client, kind, key, items):
    """What MEXISTS says of each item."""
    parts = [items[start : start + 5000] for start in range(0, len(items), 5000)]
    return [answer for part in parts for answer in client(f"{kind}.MEXISTS", key, *part)]


def insert(server, kind, key, items):
    parts = [items[start : start + 2000] for start in range(0, len(items), 2000)]
    for reply in server.client.pipeline([[f"{kind}.INSERT", key, "ITEMS", *part] for part in parts], depth=4):
        assert not isinstance(reply, ReplyError), reply


def info(client, command, key):
    """The reply of BF.INFO or CF.INFO as a dict, in either protocol."""
    reply = client(command, key)
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {name if isinstance(name, str) else name.decode(): value for name, value in pairs}
