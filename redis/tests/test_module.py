# SPDX-License-Identifier: MIT
"""The module in a server that lacks functions, refuses memory, and reads damaged files: interposer.c is between them."""
import pathlib
import re
import struct

import image
import pytest
import redisbloom
from filters import ask, info, load, through_files, trusting
from server import ReplyError, same, wait_until
from test_hostile import FOOTER, TYPE

API = (pathlib.Path(__file__).resolve().parents[1] / "server_api.h").read_text()
FUNCTIONS = re.findall(r"^  F\([^,]*, (\w+),(?:.*\\\n)*?.*(REQUIRED|OPTIONAL)\)", API, re.M)
ITEMS = range(300)
# All that a key can hold; what RedisBloom wrote has a type of its own, unless it came by chunks.
RESERVED = {"bloom": "BF.RESERVE bloom 0.001 50 SEED 1", "fixed": "BF.RESERVE fixed 0.001 400 NONSCALING SEED 1",
            "window": "BF.RESERVE window 0.001 100 WINDOW 2 SEED 1", "cuckoo": "CF.RESERVE cuckoo 50 SEED 1",
            "still": "CF.RESERVE still 400 EXPANSION 0 SEED 1", "recent": "CF.RESERVE recent 100 WINDOW 2 RENEWS SEED 1"}
FOREIGN = {"chain": redisbloom.Bloom(0.002, 400), "topped": redisbloom.Bloom(0.002, 50), "table": redisbloom.Cuckoo(128)}
FAMILIES = {**{key: words[:2] for key, words in RESERVED.items()}, **{key: model.kind for key, model in FOREIGN.items()}, "chunked": "BF"}


@pytest.fixture
def start(context):
    """Starts a server with the interposer, that trusts checksums, and gives it the footer that payloads want."""
    def start(*arguments):
        server = context.start(module=context.beside("interposer"), arguments=arguments)
        server.footer = trusting(server)
        return server
    return start


@pytest.fixture
def server(start):
    return start("max-bytes", "64mb")


def number(server, name, value=None):
    """One of the interposer's numbers, which may get another value."""
    return server("TEST.NUMBER", name, *([] if value is None else [value]))


def make_samples(server):
    for words in RESERVED.values():
        server(*words.split())
    for key, model in FOREIGN.items():
        server("RESTORE", key, "0", redisbloom.payload(model, server.footer))
    load(server, "BF", "chunked", redisbloom.chunks(FOREIGN["chain"]))
    for key, family in FAMILIES.items():
        server(f"{family}.INSERT", key, "ITEMS", *ITEMS)
        check(server, key)


def check(server, key, sample=None):
    same(ask(server, FAMILIES[sample or key], key, ITEMS).count(1), len(ITEMS), key)


def check_no_block_is_left(server):
    number(server, "refused_from", -1)
    server("FLUSHALL", "SYNC")
    wait_until(lambda: number(server, "blocks") == 0, "all blocks are freed")


def check_every_command(server):
    make_samples(server)
    for words, reply in (("BF.ADD bloom 1", 0), ("CF.DEL cuckoo 1", 1), ("BF.ADVANCE window", "OK"), ("CF.ADVANCE recent", "OK"),
                         ("CF.ADDNX recent 1", 0), ("BF.MERGE bloom bloom", "OK"), ("CF.ADD cuckoo 1", 1)):
        same(server(*words.split()), reply, words)
    for words in ("BF.MADD bloom", "BF.ADD bloom 1 2", "CF.DEL cuckoo"):
        assert "wrong number of arguments" in server.error(*words.split())
    same(server.error(*"CF.RESERVE x 100 BUCKETSIZE 200".split()), "ERR Capacity must be at least (BucketSize * 2)")
    for key in FAMILIES:
        server("COPY", key, "copy", "REPLACE")
        server("RESTORE", "restored", "0", server("DUMP", key), "REPLACE")
        assert server("MEMORY", "USAGE", key) > 100
        server("TEST.VALUE", key, "defrag")
        for made in "copy", "restored", key:
            check(server, made, key)
    through_files(server, FAMILIES)


def test_what_a_server_may_lack_is_not_needed(start, monkeypatch):
    """Without each function that a server may lack, and without all of them."""
    optional = [name for name, need in FUNCTIONS if need == "OPTIONAL"]
    for lacks in [*([name] for name in optional), optional]:
        monkeypatch.setenv("TAMIS_LACKS", f" {' '.join(lacks)} ")
        server = start("bf-initial-size", "77", "ERROR_RATE", "0.1")
        check_every_command(server)
        check_no_block_is_left(server)
        server.kill()


def test_without_other_functions_it_does_not_load(start, monkeypatch):
    required = [name for name, need in FUNCTIONS if need == "REQUIRED"]
    for number, name in enumerate(required):
        monkeypatch.setenv("TAMIS_LACKS", f" {name} ")
        # It cannot say why before it has found the function for that.
        with pytest.raises(RuntimeError, match=f"interface: {name}" if number > required.index("Log") else "Module not loaded"):
            start()


def test_filters_bear_that_memory_moves(server):
    """All answers stay, and so do the bytes of DUMP, also where memory is refused; and a filter has other memory then."""
    make_samples(server)
    for key in FAMILIES:
        before = server("DUMP", key)
        for moves, refused_from in (0, -1), (1, -1), (1, 0):
            number(server, "moves", moves)
            number(server, "refused_from", refused_from)
            same(server("TEST.VALUE", key, "defrag"), moves)
            number(server, "refused_from", -1)
            same(server("DUMP", key), before)
            check(server, key)
    check_no_block_is_left(server)


def test_periods_end_together(server):
    """However many periods are over, they end by one call, also where their numbers end."""
    server(*"BF.RESERVE window 0.001 100 WINDOW 64 SEED 1".split())
    server("BF.ADD", "window", "old")
    same(server("TEST.VALUE", "window", "period", 2**36 - 3), 0)
    for steps in 1, 64, 65, 10**6:
        number(server, "advances", 0)
        same(server("BF.ADVANCE", "window", steps), "OK")
        same(number(server, "advances"), 1)
        same(server("BF.EXISTS", "window", "old"), int(steps == 1))


# ---- filters that RedisBloom wrote ----


def full_chain(data_bytes, entries, rate):
    """A chain whose only layer is full, though all its bits are 0."""
    model = redisbloom.Bloom(2 * rate, entries)
    layer = model.layers[0]
    layer.data, layer.bits, layer.size = bytearray(data_bytes), data_bytes * 8, entries
    return model


LARGE = full_chain(1 << 20, 500_000, 1e-6)  # what comes on top of it takes about 2 MiB


def test_repeated_heads_take_no_memory(server):
    """A chunk that says again what the filter has takes no memory, whatever it claims."""
    head = redisbloom.Bloom(0.02, 50).head()
    same(server("BF.LOADCHUNK", "foreign", 1, head), "OK")
    number(server, "refused_from", 0)
    same(server("BF.LOADCHUNK", "foreign", 1, head), "OK")
    assert "another dump" in server.error("BF.LOADCHUNK", "foreign", 1, head[:20] + struct.pack("<Q", 1 << 40) + head[28:])


def test_refusals_read_no_more_than_an_item(start):
    """A full filter reads the bits of an item that it refuses, and nothing else: all further pages of its bits stay closed."""
    server = start("max-bytes", "2mb")
    load(server, "BF", "foreign", redisbloom.chunks(LARGE))
    for item in range(100):
        server("TEST.VALUE", "foreign", "close")
        same(server.error("BF.ADD", "foreign", item), "ERR the filter is full: it has reached the most bytes that it may take")
        assert 0 <= server("TEST.VALUE", "foreign", "open") <= LARGE.layers[0].hashes
    server("CONFIG", "SET", "tamis.max-bytes", "64mb")
    same(server("BF.ADD", "foreign", 1), 1, "a higher limit is another one")


def test_filters_on_top_are_looked_at_seldom(server):
    """An add to the filter on top looks at its figures, which takes long, only where its layers are full."""
    load(server, "BF", "foreign", redisbloom.chunks(full_chain(64, 50, 0.01)))
    steps = [step for item in range(2000) for step in (["BF.ADD", "foreign", item], ["TEST.VALUE", "foreign", "unwatched"])]
    looks = server.client.pipeline(steps)[1::2].count(0)
    assert 1 <= looks <= 60 and 1960 <= server("BF.CARD", "foreign") <= 2050, looks


def test_the_limit_holds_while_both_are_read(server):
    """What is on top of a filter that RedisBloom wrote is refused by the limit before all of it is read."""
    load(server, "BF", "foreign", redisbloom.chunks(LARGE))
    same(server("BF.ADD", "foreign", 1), 1)
    payload = server("DUMP", "foreign")
    assert len(payload) > 2.5 * 2**20
    same(server("RESTORE", "copy", "0", payload), "OK")
    server("CONFIG", "SET", "tamis.max-bytes", "1100kb")
    number(server, "bytes_loaded", 0)
    server.error("RESTORE", "another", "0", payload)
    assert number(server, "bytes_loaded") <= 2 << 20


# ---- unions ----


@pytest.mark.parametrize("capacity, part", [(300, 1 / 3), (2000, 1.05)])
def test_unions_and_the_limit(server, capacity, part):
    """A union beyond the limit is refused, and so is one near it, where a replica might make other splits; but one that a
    master has made is made here, too.  A copy of one filter makes no splits."""
    server(*f"CF.RESERVE from {capacity} SEED 5".split())
    server("CF.INSERT", "from", "ITEMS", *range(2000))
    server("CF.RESERVE", "to", capacity, "SEED", "5", "MAXBYTES", int(info(server, "CF.INFO", "from")["Size"] * part))
    same(server.error("CF.MERGE", "to", "from"), "ERR the union would have more keys or bytes than the destination may have")
    number(server, "loads", 1)
    same(server("CF.MERGE", "to", "from"), "OK")
    number(server, "loads", 0)
    same(server("CF.MERGE", "copy", "to"), "OK")
    same([server("CF.COUNT", key, 0) for key in ("to", "copy")], [1, 1])


# ---- memory is refused, and data ends early ----


COMMANDS = """BF.RESERVE new 0.001 5000; BF.RESERVE new 0.001 100 WINDOW 3; CF.RESERVE new 5000; CF.RESERVE new 5000 WINDOW 3
BF.ADD new 1; CF.ADD new 1; BF.MERGE bloom other; BF.MERGE new bloom other; CF.MERGE cuckoo others; CF.MERGE new cuckoo others
BF.SCANDUMP bloom 0; CF.SCANDUMP cuckoo 0; BF.ADVANCE window; CF.ADVANCE recent""".replace("\n", "; ").split("; ")
ADDS = ["BF.MADD bloom", "CF.INSERT cuckoo ITEMS", "CF.INSERT recent ITEMS", "BF.MADD window"]


def test_commands_bear_that_memory_is_refused(server):
    """Each command with the first allocations granted and all later ones refused: the filters have what they had."""
    for words in COMMANDS + ADDS:
        command = [*words.split(), *(range(2000, 2900) if words in ADDS else [])]
        granted, refused = 0, True
        while refused:
            make_samples(server)
            server(*"BF.RESERVE other 0.001 50 SEED 1".split())
            server("BF.MADD", "other", *range(1000, 1900))
            server(*"CF.RESERVE others 50 SEED 1".split())
            server("CF.INSERT", "others", "ITEMS", *range(1000, 1100))
            number(server, "refused_from", granted)
            (reply,) = server.client.pipeline([command])
            refused = number(server, "refused_from", -1) == 0
            for key in FAMILIES:
                check(server, key)
            if isinstance(reply, ReplyError) and words not in ADDS:
                same(server("EXISTS", "new"), 0, words)
            check_no_block_is_left(server)
            granted += 1 + granted // 8


def test_reading_bears_errors(server):
    """RDB data that ends early, or that memory is refused for: no value, and nothing is lost."""
    make_samples(server)
    for key in FAMILIES:
        payload, blocks, end = server("DUMP", key), number(server, "blocks"), TYPE
        while end < len(payload) - FOOTER:
            server.error("RESTORE", "copy", "0", payload[:end] + payload[-FOOTER:])
            same(number(server, "blocks"), blocks, (key, end))
            end += 1 + end // 40
        granted, refused = 0, True
        while refused:
            number(server, "refused_from", granted)
            (reply,) = server.client.pipeline([["RESTORE", "copy", "0", payload, "REPLACE"]])
            refused = number(server, "refused_from", -1) == 0
            assert refused or reply == "OK", reply
            assert reply == "OK" or number(server, "blocks") == blocks, (key, granted)
            granted += 1
        check(server, "copy", key)
        server("DEL", "copy")


# ---- hostile heads ----


def with_head(payload, **numbers):
    """A payload of DUMP with other numbers in the head of the key (image.h), whose sum is made right."""
    at = payload.index(b"TAMISKEY")
    head = bytearray(payload[at : at + 120])
    for name, number in numbers.items():
        struct.pack_into("<Q", head, {"deleted": 56, "every": 80, "next": 88}[name], number)
    return payload[:at] + head + struct.pack("<Q", image.sum_of(bytes(head))) + payload[at + 128 :]


def test_extremes_in_heads_do_no_harm(server):
    """Whoever makes up data makes the checksums right.  What is accepted must be such that the key can be saved and loaded
    again when commands have changed it: a server would not start with it."""
    most = 2**63 - 1
    extremes = (0, 1, most // 4, most // 4 + 1, most // 2, most // 2 + 1, most - 1, most, 2**63, 2**64 - 1)
    make_samples(server)
    heads = [(key, {"every": every, "next": next}) for key in ("window", "recent") for every in extremes for next in extremes]
    accepted = 0
    for key, numbers in [*heads, *(("cuckoo", {"deleted": deleted}) for deleted in extremes)]:
        (reply,) = server.client.pipeline([["RESTORE", "copy", "0", with_head(server("DUMP", key), **numbers), "REPLACE"]])
        if reply != "OK":
            continue
        accepted += 1
        same(server(f"{FAMILIES[key]}.ADD", "copy", "another"), 1)
        if key == "cuckoo":
            same(server("CF.DEL", "copy", "another"), 1)
        same(server("RESTORE", "copy", "0", server("DUMP", "copy"), "REPLACE"), "OK", numbers)
    same(accepted, 30)
