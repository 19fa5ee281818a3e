# SPDX-License-Identifier: MIT
"""RESTORE payloads and chunks that were made to do harm: an error, and nothing changed.

TAMIS_CORPUS names a folder of saved filters that are tried as chunks, too.
"""
import os
import pathlib
import random
import struct

import pytest
import image
import redisbloom
import valkeybloom
from filters import FOOTER, chunks
from server import ReplyError, same

TYPE = 1  # a DUMP payload begins with the type of value: others than the module's are not its concern


@pytest.fixture
def server(context):
    """Checksums of RESTORE are not looked at, as one who makes up payloads makes them right."""
    server = context.start()
    server("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1")
    server("BF.RESERVE", "bloom", "0.01", "50")
    server("BF.MADD", "bloom", *range(120))
    server("BF.RESERVE", "fixed", "0.1", "20", "NONSCALING")
    server("BF.MADD", "fixed", *range(10))
    server("CF.RESERVE", "cuckoo", "60")
    server("CF.INSERT", "cuckoo", "ITEMS", *range(100), *[5] * 9)
    server("CF.RESERVE", "still", "60", "EXPANSION", "0")
    server("CF.INSERT", "still", "ITEMS", *range(40))
    return server


FILTERS = {"bloom": "BF", "fixed": "BF", "cuckoo": "CF", "still": "CF"}


def changed(data, generator, count):
    """`data` with changes of many sorts."""
    size = len(data)
    lengths = range(size) if size < count // 3 else sorted(generator.sample(range(size), count // 3))
    for length in lengths:
        yield data[:length]
    for _ in range(count // 3):
        at = generator.randrange(size)
        yield data[:at] + bytes([data[at] ^ 1 << generator.randrange(8)]) + data[at + 1 :]
    for _ in range(count // 6):
        at, more = generator.randrange(size), generator.randrange(1, 12)
        yield data[:at] + generator.choice([b"\xff", b"\0", b"\x81\xff"]) * more + data[at + more :]
    for _ in range(count // 6):
        a, b = sorted(generator.sample(range(size + 1), 2))
        yield generator.choice([data[:a] + data[b:], data[:b] + data[a:], data[a:b] + data])


def payloads(payload, generator, count):
    """The payload of DUMP with changes between its type and its footer."""
    body = payload[TYPE:-FOOTER]
    for hostile in changed(body, generator, count):
        if hostile != body:
            yield payload[:TYPE] + hostile + payload[-FOOTER:]


def use(server, kind, key):
    """A filter that was accepted must work."""
    server(f"{kind}.MEXISTS", key, *range(50))
    server(f"{kind}.INFO", key)
    server(f"{kind}.SCANDUMP", key, "0")
    server("DUMP", key)
    for word in ("new", "other"):
        server.client.pipeline([[f"{kind}.ADD", key, word]])
    server("DEL", key)


def load(server, kind, key, pieces):
    """Whether all of the pieces were accepted."""
    for cursor, data in pieces:
        try:
            server(f"{kind}.LOADCHUNK", key, cursor, data)
        except ReplyError:
            return False
    return True


def whole(server, kind, key):
    """Whether the key is a filter that answers."""
    return not isinstance(server.client.pipeline([[f"{kind}.INFO", key]])[0], ReplyError)


def test_chunks(server):
    generator = random.Random(2)
    server("CONFIG", "SET", "rdbcompression", "no")
    for key, kind in FILTERS.items():
        pieces, payload = chunks(server, kind, key), server("DUMP", key)
        for which in range(len(pieces)):
            cursor, data = pieces[which]
            for hostile in changed(data, generator, 600 // len(pieces)):
                if hostile == data:
                    continue
                trial = pieces[:which] + [(cursor, hostile)] + pieces[which + 1 :]
                if load(server, kind, "victim", trial) and whole(server, kind, "victim"):
                    raise AssertionError(f"{key}: accepts a changed chunk {which}: {hostile.hex()}")
                server("DEL", "victim")
        for hostile in payloads(payload, generator, 600):  # a number of RDB's has several encodings
            if server.client.pipeline([["RESTORE", "victim", "0", hostile, "REPLACE"]]) == ["OK"]:
                same(server("DUMP", "victim"), payload)
        server("DEL", "victim")
        # Cursors from elsewhere, and chunks of another filter.
        for cursor in (-1, 0, 2, 3, 1 << 40, (1 << 63) - 1, -(1 << 63)):
            for data in (b"", b"x", pieces[0][1], os.urandom(100)):
                load(server, kind, "victim", [(cursor, data)])
                if whole(server, kind, "victim"):
                    assert cursor == pieces[0][0] and data == pieces[0][1]
                server("DEL", "victim")
        other = "CF" if kind == "BF" else "BF"
        load(server, other, "victim", pieces)
        assert not whole(server, other, "victim"), "a filter of the other kind"
        server("DEL", "victim")
        # A whole filter takes no chunk.
        before = server("DUMP", key)
        for cursor, data in pieces:
            server.error(f"{kind}.LOADCHUNK", key, cursor, data)
        assert server("DUMP", key) == before


# ---- filters that RedisBloom wrote: their data has no sums, so much that is changed is a filter, too ----

EXTREMES = (0, 1, 2, 3, 255, 1 << 15, 1 << 31, (1 << 32) - 1, 1 << 60, (1 << 63) - 1, (1 << 64) - 1)


def foreign_filters():
    """Of each form; the last one is so full that it has a filter of the library's own on top soon."""
    made = [redisbloom.Bloom(0.02, 60), redisbloom.Bloom(0.02, 60, 2, 0), redisbloom.Cuckoo(64, 2, 20, 2),
            redisbloom.Cuckoo(16, 3, 20, 0), redisbloom.Bloom(0.1, 10)]
    for model in made:
        for i in range(40):
            model.add(b"%d" % i)
    return made


def with_numbers(data, generator):
    """Each number of a head in turn is one that is at an end of some range."""
    for at in range(len(data) - 7):
        for size in 1, 2, 4, 8:
            for number in generator.sample(EXTREMES, 2):
                yield data[:at] + number.to_bytes(8, "little")[:size] + data[at + size :]


def go_on(server, kind, key):
    """Uses a filter that was accepted until it has grown, and then as any other one."""
    payload = server("DUMP", key)
    server("RESTORE", "again", "0", payload)
    same(server("DUMP", "again"), payload)
    for start in range(0, 400, 100):
        server.client.pipeline([[f"{kind}.INSERT", key, "ITEMS", *range(start, start + 100)]])
    server.client.pipeline([["CF.DEL", key, i] for i in range(0, 400, 7)] + [["CF.COUNT", key, "1"]])
    server("COPY", key, "copy")
    server("DEL", "again", "copy")
    use(server, kind, key)


def test_foreign_payloads(server):
    """What is accepted of changed data is what DUMP would give, but for numbers of which RDB has several encodings."""
    server("CONFIG", "SET", "rdbcompression", "no", "tamis.max-bytes", "1000000")
    footer = server("DUMP", "bloom")[-FOOTER:]
    generator = random.Random(6)
    accepted = refused = others = 0
    for model in foreign_filters():
        payload = redisbloom.payload(model, footer)
        same(server("RESTORE", "victim", "0", payload), "OK")
        go_on(server, model.kind, "victim")
        for hostile in payloads(payload, generator, 300):
            (reply,) = server.client.pipeline([["RESTORE", "victim", "0", hostile]])
            if isinstance(reply, ReplyError):
                refused += 1
                continue
            accepted += 1
            others += not hostile.startswith(server("DUMP", "victim")[:-FOOTER])
            go_on(server, model.kind, "victim")
    assert accepted > 100 and refused > 100 and others < 10, (accepted, refused, others)
    same(server("BF.MEXISTS", "bloom", *range(10)), [1] * 10)


def test_foreign_heads(server):
    """Of a chain of 64 bytes, with one number changed: where it is, its bytes, and what it must not be."""
    head, most = redisbloom.Bloom(0.02, 50).head(), 2**64 - 1
    wrong = {(8, 4): (0, 2), (12, 4): (16,), (0, 8): (most,), (20, 8): (0, 63, most), (28, 8): (0, 513, most), (36, 8): (most,),
             (44, 8): (0, most), (52, 8): (0, most), (60, 4): (0, 2**32 - 1), (64, 8): (most,), (72, 1): (10, 64)}
    for (at, size), numbers in wrong.items():
        for number in numbers:
            hostile = head[:at] + number.to_bytes(size, "little") + head[at + size :]
            same(server.error("BF.LOADCHUNK", "victim", 1, hostile), "ERR received bad data", (at, number))
    same(server("EXISTS", "victim"), 0)
    same(server("BF.LOADCHUNK", "victim", 1, head[:72] + b"\x09"), "OK", "the whole of 512 bits, as a power of two")


def test_foreign_chunks(server):
    server("CONFIG", "SET", "tamis.max-bytes", "1000000")
    generator = random.Random(7)
    accepted = refused = 0
    valkey = valkeybloom.Bloom(10, 0.3, 1, 0.9)
    for i in range(60):
        valkey.add(b"%d" % i)
    for model in [*foreign_filters(), valkey]:
        (_, head), *rest = redisbloom.chunks(model)
        for hostile in (*changed(head, generator, 60), *with_numbers(head, generator)):
            (reply,) = server.client.pipeline([[f"{model.kind}.LOADCHUNK", "victim", 1, hostile]])
            refused += isinstance(reply, ReplyError)
            server.client.pipeline([[f"{model.kind}.LOADCHUNK", "victim", *chunk] for chunk in rest])
            if server("EXISTS", "victim"):
                server("COPY", "victim", "copy")  # also one that is half restored
                server("RESTORE", "again", "0", server("DUMP", "victim"))
            if whole(server, model.kind, "victim"):
                accepted += 1
                server("DEL", "again")
                go_on(server, model.kind, "victim")
            server("DEL", "victim", "copy", "again")
        for _ in range(50):
            cursor = generator.choice([*EXTREMES, *range(1, 200)]) * generator.choice([1, 1, -1]) % (1 << 63)
            data = bytes(generator.randrange(256) for _ in range(generator.randrange(0, 200)))
            server.client.pipeline([[f"{model.kind}.LOADCHUNK", "victim", 1, head],
                                    [f"{model.kind}.LOADCHUNK", "victim", cursor, data]])
            server("DEL", "victim")
    assert accepted > 20 and refused > 50, (accepted, refused)


# ---- saved filters of the fuzzer's corpus, where a filter is expected ----

KEY_HEAD = 128


def chunk_of(first, hostile):
    """The only chunk of a key, made from that of another one, with another filter in it."""
    return image.sealed(first, image.record(image.data_of(first)[:KEY_HEAD] + hostile))


def test_records(server):
    """Records that say what cannot be, in chunks whose sums are right."""
    for key, kind in FILTERS.items():
        (cursor, first), = chunks(server, kind, key)
        good, data = first[64:], image.data_of(first)
        same(load(server, kind, "victim", [(cursor, image.sealed(first, image.record(data)))]), True, "in other records")
        server("DEL", "victim")
        for hostile in (good[:-1], good + b"\0", good + bytes(8), good + struct.pack("<2I", 0, 1), bytes(8) + good,
                        good + struct.pack("<2I", 1, 0), good + struct.pack("<2I", 2**32 - 1, 0) * 10_000,
                        struct.pack("<2I", 2**32 - 1, 0) * 130_000, struct.pack("<2I", 0, 2**32 - 1) + data,
                        struct.pack("<2I", 0, len(data) + 1) + data, image.record(data[:KEY_HEAD]), bytes(100)):
            same(load(server, kind, "victim", [(cursor, image.sealed(first, hostile))]), False, hostile[:16])
            same(server("EXISTS", "victim"), 0)


def payload_of(payload, hostile):
    """A payload of DUMP, not compressed, with another filter in it."""
    at = payload.find(b"TAMISKEY")
    body = payload[at : at + KEY_HEAD] + hostile
    head = payload[: at - string_head(payload, at)]
    pieces = [body[start : start + image.CHUNK] for start in range(0, len(body), image.CHUNK)]
    out = b""
    for number, piece in enumerate(pieces):
        # Before each string a 1, as an unsigned number (2); the string (5) has a length of 32 bits.
        out += (b"" if number == 0 else b"\x02\x01\x05") + b"\x80" + len(piece).to_bytes(4, "big") + piece
    return head + out + b"\x02\x00" + b"\x00" + payload[-FOOTER:]


def string_head(payload, at):
    """How many bytes before `at` are the length of the string that begins there."""
    return 5 if payload[at - 5] == 0x80 else 2 if payload[at - 2] >> 6 == 1 else 1


def test_corpus(server):
    """No crash, and what is accepted works."""
    folder = os.environ.get("TAMIS_CORPUS")
    if not folder:
        pytest.skip("TAMIS_CORPUS is not set")
    server("CONFIG", "SET", "rdbcompression", "no")
    generator = random.Random(3)
    whole_ones = {key: (server("DUMP", key), chunks(server, kind, key)[0][1]) for key, kind in FILTERS.items()}
    for payload, first in whole_ones.values():  # what is made here is what the module makes
        inside = image.data_of(first)[KEY_HEAD:]
        server("RESTORE", "victim", "0", payload_of(payload, inside))
        same(server("DUMP", "victim"), payload)
        server("DEL", "victim")
        same(image.sealed(first, first[64:]), first)
    accepted = 0
    for path in sorted(pathlib.Path(folder).glob("*.tamis")):
        data = path.read_bytes()
        for hostile in (data, *changed(data, generator, 12)):
            for key in ("bloom", "cuckoo"):
                kind, (payload, first) = FILTERS[key], whole_ones[key]
                (reply,) = server.client.pipeline([["RESTORE", "victim", "0", payload_of(payload, hostile)]])
                if not isinstance(reply, ReplyError):
                    accepted += 1
                    use(server, kind, "victim")
                cursor = chunks(server, kind, key)[0][0]
                if len(hostile) < 1_000_000 and load(server, kind, "victim", [(cursor, chunk_of(first, hostile))]):
                    use(server, kind, "victim")
                server("DEL", "victim")
    print(f"# {accepted} accepted")


def test_memory_after_refusals(server):
    """What was refused leaves no memory behind."""
    generator = random.Random(5)
    trials = list(payloads(server("DUMP", "cuckoo"), generator, 300))
    server("CF.ADD", "small", "a")
    chunk, = chunks(server, "CF", "small")  # of the other kind

    def round_of_trials():
        server.client.pipeline([["RESTORE", "victim", "0", payload, "REPLACE"] for payload in trials])
        server.client.pipeline([["BF.LOADCHUNK", "nowhere", *chunk]] * 1000)
        server("DEL", "victim")
        return server.client.info("memory", "used_memory")
    round_of_trials()
    before = round_of_trials()
    for _ in range(5):
        after = round_of_trials()
    assert after < before + 200_000, (before, after)
