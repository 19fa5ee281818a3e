# SPDX-License-Identifier: MIT
"""Filters that valkey-bloom wrote: taken over by BF.LOAD, as from its AOF, they answer as they did there, take further items,
and go through everything that other filters go through.
"""
import hashlib
import random
import struct

import server as servers
from filters import ask, info, load, through_everything
from redisbloom import chunks
from server import ReplyError, same
from valkeybloom import Bloom

SHAPES = {  # capacity, rate, expansion, tightening ratio; how many items
    "usual": (100, 0.01, 2, 0.5, 1500), "full": (50, 0.001, 0, 0.5, 50), "slow": (10, 0.3, 1, 0.9, 60),
    "fast": (20, 1e-6, 4, 0.25, 1200), "tiny": (1, 0.5, 3, 0.5, 20), "empty": (1000, 0.05, 2, 0.5, 0),
    "large": (2000, 1e-6, 2, 0.5, 2500),
}
HEAD = 1 + 4 + 8 + 8 + 1 + 8  # of a dump; then a layer's number of bytes, and its own head
LAYER = 8 + 1 + 8 + 4 + 32
DAMAGED = "ERR bloom object decoding failed"
PROBES = [b"", *(b"x" * size for size in range(1, 20)), *(b"absent %d" % i for i in range(2000))]


def made(name):
    """A filter, and what was added; items of all sizes."""
    *shape, size = SHAPES[name]
    model, draw = Bloom(*shape, seed=hashlib.sha256(name.encode()).digest()), random.Random(name)
    items = [b"%d" % i + draw.randbytes(i % 30) for i in range(size)]
    for item in items:
        assert model.add(item) is not None
    return model, items


def check(server, model, key, items=()):
    probes = [*items, *PROBES]
    same(ask(server, "BF", key, probes), [int(model.has(probe)) for probe in probes], key)


def test_known_bytes():
    """The model writes what valkey-bloom's library and its encoder wrote for the same items."""
    for name, digest in DIGESTS.items():
        same(hashlib.sha256(made(name)[0].dump()).hexdigest()[:16], digest, name)


def test_load(server):
    for name in SHAPES:
        model, items = made(name)
        same(server("BF.LOAD", name, model.dump()), "OK")
        check(server, model, name, items)
        figures = {"Capacity": sum(layer.entries for layer in model.layers), "Number of filters": len(model.layers),
                   "Number of items inserted": sum(layer.size for layer in model.layers), "Expansion rate": model.expansion or None}
        same({field: value for field, value in info(server, "BF.INFO", name).items() if field != "Size"}, figures)
        same(float(server("BF.INFO", name, "ERROR")), model.rate)
        if model.expansion:
            same(float(server("BF.INFO", name, "TIGHTENING")), model.ratio)
        assert "foreign" not in str(server("BF.INFO", name, "ADVICE"))
        same(server.error("BF.LOAD", name, model.dump()), "BUSYKEY Target key name already exists.")
        assert "no union" in server.error("BF.MERGE", "other", name)
    same(server.error("BF.ADD", "full", "more"), "ERR non scaling filter is full")


def test_through_everything(context):
    """COPY, chunks, DUMP, RDB, AOF, a replica; further items go in, and the rate is kept."""
    server = context.start()
    replica = context.start("--replicaof", servers.HOST, str(server.port))
    servers.in_step(server, replica)
    for name in SHAPES:
        model, items = made(name)
        server("BF.LOAD", name, model.dump())
        through_everything(server, "BF", name)
        check(server, model, "chunks", items)
        if model.expansion:
            grow(server, name, items)
        servers.in_step(server, replica)
        same(replica("DEBUG", "DIGEST-VALUE", name), server("DEBUG", "DIGEST-VALUE", name), f"{name}: the replica")
        server("FLUSHALL")


def grow(server, name, items):
    """The last layer is filled, and then comes a filter on top."""
    before = server("BF.CARD", name)
    later = [b"later %d" % i for i in range(3000)]
    for start in range(0, len(later), 500):
        server("BF.MADD", name, *later[start : start + 500])
    same(set(ask(server, "BF", name, [*items, *later])), {1}, name)
    assert server("BF.CARD", name) > before
    if SHAPES[name][1] < 0.1:
        wrong = sum(ask(server, "BF", name, [b"never %d" % i for i in range(5000)]))
        assert wrong < 5000 * (2.5 * SHAPES[name][1] + 0.002), wrong


def test_same_bits(server):
    """What is added while the last layer has room sets the bits that it would there."""
    model, _ = made("empty")
    server("BF.LOAD", "f", model.dump())
    items = [random.Random(3).randbytes(i % 50) for i in range(900)]
    same(server("BF.MADD", "f", *items), [model.add(item) for item in items])
    server("BF.LOAD", "again", model.dump())
    same(server("DEBUG", "DIGEST-VALUE", "f"), server("DEBUG", "DIGEST-VALUE", "again"))


def test_rate_on_top(server):
    """The filter on top has the rate that all further layers would have together, and at most that of the last one."""
    for ratio, rate in ((0.1, 0.01 / 9), (0.5, 0.01), (0.9, 0.01)):
        model = Bloom(10, 0.01, 2, ratio)
        for i in range(100):
            if model.layers[-1].size < 10:
                model.add(b"%d" % i)
        server("DEL", "f")
        server("BF.LOAD", "f", model.dump())
        server("BF.MADD", "f", *range(1000, 1005))
        assert server("BF.DEBUG", "f")[-1].endswith(b" ratio:%g" % rate), (ratio, server("BF.DEBUG", "f"))


def test_aof_file(context):
    """A server starts on an AOF as valkey-bloom writes one, whose filters are larger than this server's limit, and with
    commands after it."""
    server = context.start("--appendonly", "yes", "--aof-use-rdb-preamble", "no")
    model, items = made("large")
    seed = bytes(range(200, 232))
    create = ["CAPACITY", "1000", "ERROR", "0.001", "TIGHTENING", "0.5", "SEED", seed, "EXPANSION", "2"]
    commands = [["BF.LOAD", "f", model.dump()], ["BF.ADD", "f", "after"], ["BF.INSERT", "g", *create],
                ["BF.INSERT", "h", *create, "ITEMS", "one", "two"], ["BF.MADD", "g", "three"],
                ["BF.INSERT", "h", "VALIDATESCALETO", "999999999999", "ITEMS", "four"]]
    server.module.extend(("max-bytes", "6000"))
    server.start_on_aof(commands)
    same(server("BF.MEXISTS", "f", *items, "after"), [1] * (len(items) + 1))
    same([server("BF.CARD", key) for key in "gh"], [1, 3])
    same(server.error("BF.LOAD", "k", model.dump()), "ERR operation exceeds bloom object memory limit")


def test_damage(server):
    """Bytes made to do harm: an error that changes nothing, or another filter, which works."""
    model, _ = made("usual")
    dump, draw = model.dump(), random.Random(8)
    same(server.error("BF.LOAD", "f", b""), DAMAGED)
    same(server.error("BF.LOAD", "f", b"\\2" + dump[1:]), f"{DAMAGED}. Unsupported version")
    for size in (*range(1, HEAD + LAYER), *draw.sample(range(len(dump)), 100)):
        same(server.error("BF.LOAD", "f", dump[:size]), DAMAGED, size)
    same(server.error("BF.LOAD", "f", dump + b"\\0"), DAMAGED)
    for at, words in refused(dump):
        same(server.error("BF.LOAD", "f", dump[:at] + words + dump[at + len(words) :]), DAMAGED, (at, words))
    same(server("EXISTS", "f"), 0)
    accepted = 0
    for _ in range(3000):
        at, size = draw.randrange(1, HEAD + LAYER + 60), draw.choice((1, 4, 8))
        hostile = dump[:at] + draw.choice((draw.randbytes(size), b"\\xff" * size, b"\\0" * size)) + dump[at + size :]
        (reply,) = server.client.pipeline([["BF.LOAD", "f", hostile]])
        if isinstance(reply, ReplyError):
            assert str(reply).startswith(DAMAGED), reply
            continue
        accepted += 1
        server("BF.MADD", "f", *range(300))
        same(server("BF.MEXISTS", "f", *range(300)).count(1) >= 200, True)
        same(server("RESTORE", "again", "0", server("DUMP", "f")), "OK")
        server("DEL", "f", "again")
    assert accepted > 50, accepted


def test_chunks(server):
    """Its head in this module's own dump, and its layers; hostile ones are in test_hostile.py."""
    model, items = made("slow")
    pieces = list(chunks(model))
    load(server, "BF", "f", [*pieces, pieces[-1]])  # the last one again
    check(server, model, "f", items)


def refused(dump):
    """Places of a dump, and what must not stand there."""
    first = HEAD + LAYER + struct.unpack_from("<Q", dump, HEAD + 9)[0]  # after the first layer's bits
    for real in (0.0, 1.0, -0.5, float("inf"), float("nan")):
        for at in (5, 13):
            yield at, struct.pack("<d", real)
    yield 21, b"\\2"
    for number in (0, 3, 5, 1101, 1 << 63, (1 << 64) - 1):
        yield 22, struct.pack("<Q", number)  # of layers
    for number in (0, 44, 45, 1 << 32, (1 << 64) - 1):
        yield HEAD, struct.pack("<Q", number)
        yield HEAD + 9, struct.pack("<Q", number)
    yield HEAD + 8, b"\\0"
    for number in (0, 1101, (1 << 32) - 1):
        yield HEAD + 17, struct.pack("<I", number)  # of hashes
    yield HEAD + 21, bytes(32)  # another seed than that of the next layer
    for number in (101, 1 << 62, (1 << 64) - 1):
        yield first, struct.pack("<Q", number)  # items: more than the capacity
    for number in (0, 99, 1 << 63):
        yield first + 8, struct.pack("<Q", number)


# Of the dumps that the library bloomfilter 3.0.1 and the encoder bincode 1.3.3 wrote.
DIGESTS = {"usual": "76b82b44471b001a", "full": "7fd6bd6347a5c23f", "slow": "99950690a27e4345",
           "fast": "773a8686daeb82e9", "tiny": "792644b859ba2fa0", "empty": "20b01ba38f317520", "large": "b7ae1c7ed89bcae3"}
