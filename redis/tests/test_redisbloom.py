# SPDX-License-Identifier: MIT
"""Filters that RedisBloom wrote: taken over from RDB files, AOF files, payloads of DUMP and chunks, they answer as
they did there, take further items, and go through everything that other filters go through.
"""
import fnmatch
import pathlib
import random
import re
import socket
import subprocess
import threading

import pytest
import redisbloom
import server as servers
from filters import FOOTER, ask, info, load, through_everything, trusting
from redisbloom import HASH_64, NONSCALING, NOROUND, Bloom, Cuckoo
from server import in_step, same, wait_until

TOOL = pathlib.Path(__file__).resolve().parents[1] / "tamis-redis-import"


def start_trusting(context):
    server = context.start()
    return server, trusting(server)


def check_sample(server, sample, key):
    assert ask(server, sample.kind, key, sample.probes) == list(map(int, sample.exists)), f"other answers: {key}"
    if sample.kind == "CF":
        same([server("CF.COUNT", key, probe) for probe in sample.probes[:500]], sample.count, key)
    theirs = dict(zip(sample.info[::2], sample.info[1::2]))
    for name, value in info(server, f"{sample.kind}.INFO", key).items():
        assert name == "Size" or value == theirs[name], (key, name, value, theirs[name])


def check_everything(server, sample):
    check_sample(server, sample, sample.name)
    through_everything(server, sample.kind, sample.name)
    check_sample(server, sample, "chunks")
    server("FLUSHALL")


def test_chunks(context):
    server = context.start()
    for sample in redisbloom.samples():
        load(server, sample.kind, sample.name, [*sample.chunks, sample.chunks[-1]])  # the last one again
        check_everything(server, sample)


def test_payloads(context):
    """What DUMP gives again is what RedisBloom gave, byte for byte: the way back is open."""
    server, footer = start_trusting(context)
    for sample in redisbloom.samples():
        same(server("RESTORE", sample.name, "0", sample.dump[:-FOOTER] + footer), "OK")
        server("CONFIG", "SET", "rdbcompression", "yes")
        same(server("DUMP", sample.name)[:-FOOTER], sample.dump[:-FOOTER])
        server("CONFIG", "SET", "rdbcompression", "no")
        check_everything(server, sample)


def test_rdb_file(context):
    """A server starts on RedisBloom's filters in an RDB file: a payload has the type, and then what a file has."""
    server = servers.Server(context.kind, context.module, start=False)
    context.started.append(server)
    keys = [(f"saved:{sample.name}".encode(), sample.dump) for sample in redisbloom.samples()]
    values = [dump[:1] + bytes([len(key)]) + key + dump[1:-FOOTER] for key, dump in keys]
    select_db_0, end_without_checksum = b"\xfe\0", b"\xff" + bytes(8)
    (server.folder / "dump.rdb").write_bytes(b"".join([b"REDIS0010", select_db_0, *values, end_without_checksum]))
    server.start()
    for _ in range(2):
        for sample in redisbloom.samples():
            check_sample(server, sample, f"saved:{sample.name}")
        server("SAVE")
        server.kill()
        server.start()


def test_aof_file(context):
    """A server starts on an AOF as RedisBloom writes one, with commands after it."""
    server = context.start("--appendonly", "yes", "--aof-use-rdb-preamble", "no")
    sample, added = redisbloom.samples()[-1], ["after 1", "after 2"]
    commands = [[f"{sample.kind}.LOADCHUNK", "f", *chunk] for chunk in sample.chunks]
    commands += [["BF.RESERVE", "g", "0.01", "1000"], ["BF.MADD", "g", *added], ["BF.ADD", "f", added[0]]]
    server.start_on_aof(commands)
    same(server("BF.MEXISTS", "g", *added), [1, 1])
    same(server("BF.EXISTS", "f", added[0]), 1)
    same(ask(server, "BF", "f", sample.probes).count(1) >= sample.exists.count("1"), True)


def models():
    """Filters of all forms, filled; what they are, and the encodings of RDB that can have them."""
    words = [f"key {i}".encode() for i in range(1600)] + [b"", b"\0" * 7, b"x" * 1000]
    made = []
    for options in (NOROUND | HASH_64, NOROUND, HASH_64, 0, NONSCALING, NONSCALING | HASH_64 | NOROUND):
        made.append((f"Bloom {options}", Bloom(0.02, 5000 if options & NONSCALING else 600, 2, options), range(2, 5)))
    made.append(("Bloom 0.5", Bloom(0.5, 10, 1), (4, )))
    for size in (1, 2, 3, 4, 7):
        made.append((f"Cuckoo {size}", Cuckoo(1000, size, 20, 2), (4, )))
    made.append(("Cuckoo 500 times", Cuckoo(500, 2, 500, 1), (4, )))
    made.append(("Cuckoo fixed", Cuckoo(8192, 4, 100, 0), (4, )))
    made.append(("Cuckoo small", Cuckoo(8, 2, 20, 4), (4, )))
    for _, model, _ in made:
        few = words[:40] if len(model.tables()[0]) < 64 else words
        for word in few:
            model.add(word)
        if model.kind == "CF":
            for word in few[::5]:
                model.remove(word)
    return made, words + [f"absent {i}".encode() for i in range(1600)]


def agrees(server, model, key, words):
    kind = model.kind
    assert ask(server, kind, key, words) == [int(model.has(word)) for word in words], key
    if kind == "CF":
        same([server("CF.COUNT", key, word) for word in words[:200]], [model.copies(word) for word in words[:200]])
        same(info(server, "CF.INFO", key)["Number of items inserted"], model.count)
    else:
        same(server("BF.CARD", key), model.count)


def test_all_forms(context):
    """Hashes of 32 and 64 bits, sizes that are powers of two and others, all encodings, buckets of all sizes."""
    server, footer = start_trusting(context)
    made, words = models()
    for name, model, versions in made:
        for version in versions:
            key = f"{name} {version}"
            same(server("RESTORE", key, "0", redisbloom.payload(model, footer, version)), "OK", key)
            agrees(server, model, key, words)
        for number, most in enumerate((1 << 24, 300)):
            load(server, model.kind, f"chunk {number}", redisbloom.chunks(model, most))
            agrees(server, model, f"chunk {number}", words)
        server("FLUSHALL")


def test_old_hashes_are_refused(context):
    """Other hash functions made the bits of the oldest encodings: to read them would lose items."""
    server, footer = start_trusting(context)
    bloom = Bloom(0.02, 600, 2, 0)
    for layer in bloom.layers:
        layer.log2_bits = 0
    for model, version in [(Cuckoo(1000, 2, 20, 1), version) for version in range(4)] + [(bloom, 0), (bloom, 1)]:
        assert "Bad data format" in server.error("RESTORE", "old", "0", redisbloom.payload(model, footer, version))
    same(server("EXISTS", "old"), 0)


def test_cuckoo_goes_on(context):
    """Adds, copies and removes after the import are those of RedisBloom, byte for byte, until the table is full and
    beyond."""
    server, footer = start_trusting(context)
    for expansion in (0, 1, 4):
        model = Cuckoo(600, 2, 20, expansion)
        for i in range(300):
            model.add(b"%d" % i)
        server("RESTORE", "f", "0", redisbloom.payload(model, footer))
        generator = random.Random(expansion)
        for _ in range(4000):
            word = b"%d" % generator.randrange(2000)
            what = generator.choice(["ADD", "ADDNX", "ADD", "DEL"])
            if what == "ADD":
                expected = model.add(word)
            elif what == "ADDNX":
                expected = 0 if model.has(word) else model.add(word)
            else:
                expected = model.remove(word)
            if expected is None:
                assert "Filter is full" in server.error(f"CF.{what}", "f", word)
            else:
                same(server(f"CF.{what}", "f", word), expected, what)
        same(server("DUMP", "f")[:-FOOTER], redisbloom.payload(model, footer)[:-FOOTER])
        agrees(server, model, "f", [b"%d" % i for i in range(2500)])
        server("DEL", "f")


def test_dump_of_a_filter_that_changes(context):
    """An add between two chunks does no harm to a Bloom filter's dump, and ends that of a cuckoo filter."""
    server = context.server()
    for model in (Bloom(0.01, 2_000_000), Cuckoo(2_000_000, 2, 20, 1)):
        kind = model.kind
        (_, head), *rest = redisbloom.chunks(model)
        server(f"{kind}.LOADCHUNK", kind, 1, head)
        load(server, kind, kind, [(cursor, random.Random(1).randbytes(len(data))) for cursor, data in rest])
        server(f"{kind}.ADD", kind, "before")  # a cuckoo filter without items has no chunks
        cursor, data = server(f"{kind}.SCANDUMP", kind, 0)
        server(f"{kind}.ADD", kind, "x")
        while kind == "BF" and cursor:
            same(server("BF.LOADCHUNK", "copy", cursor, data), "OK")
            cursor, data = server("BF.SCANDUMP", "BF", cursor)
    assert "begin again" in server.error("CF.SCANDUMP", "CF", cursor)
    same(server("BF.MEXISTS", "copy", *range(1000)), server("BF.MEXISTS", "BF", *range(1000)))


def test_bloom_goes_on(context):
    """Adds fill the last layer as RedisBloom's do; what comes after that goes into a filter on top, and the rate holds."""
    server, footer = start_trusting(context)
    for options in (NOROUND | HASH_64, 0):
        model = Bloom(0.02, 1000, 2, options)
        for i in range(1500):
            model.add(b"%d" % i)
        server("RESTORE", "f", "0", redisbloom.payload(model, footer))
        last, number = model.layers[-1], 1500
        while last.size < last.entries:
            word = b"%d" % number
            same(server("BF.ADD", "f", word), model.add(word))
            number += 1
        restored = server("RESTORE", "same", "0", redisbloom.payload(model, footer))
        same(server("DUMP", "f"), server("DUMP", "same"), restored)
        same(server("BF.INFO", "f", "FILTERS"), [len(model.layers)])
        before = server("BF.CARD", "f")
        new = sum(server("BF.MADD", "f", *range(number, number + 20000)))
        same(server("BF.CARD", "f"), before + new)
        same(server("BF.MEXISTS", "f", *range(number + 20000)).count(0), 0)
        found = sum(ask(server, "BF", "f", [f"absent {i}" for i in range(20000)]))
        assert found < 0.02 * 20000 * 1.2, found
        for what in (("DEBUG", "RELOAD"), ("COPY", "f", "g"), ("RESTORE", "h", "0", server("DUMP", "f"))):
            digest = server("DEBUG", "DIGEST-VALUE", "f")
            server(*what)
            same(server("DEBUG", "DIGEST-VALUE", "f"), digest)
        same(server("DEBUG", "DIGEST-VALUE", "g"), server("DEBUG", "DIGEST-VALUE", "h"))
        same(server("BF.MEXISTS", "h", *range(number + 20000)).count(0), 0)
        server("FLUSHALL")
    # A growth of 0 is that of a filter whose further layers would be for no items.
    for model in (Bloom(0.02, 500, 2, NOROUND | HASH_64 | NONSCALING), Bloom(0.02, 500, 0)):
        server("RESTORE", "f", "0", redisbloom.payload(model, footer))
        replies = server("BF.MADD", "f", *range(1000))
        same(server("BF.CARD", "f"), 500)
        assert isinstance(replies[-1], servers.ReplyError) and "non scaling filter is full" in str(replies[-1])
        same(server("BF.INFO", "f", "FILTERS"), [1])
        assert any(b"does not grow" in sentence for sentence in server("BF.INFO", "f", "ADVICE"))
        assert "no union" in server.error("BF.MERGE", "f", "f")
        server("DEL", "f")


def test_replica(context):
    """What a master adds to filters of RedisBloom's, its replica adds alike, whatever its own limit."""
    master, footer = start_trusting(context)
    replica = context.start("--replicaof", servers.HOST, master.port, arguments=("max-bytes", "20kb", "cf-max-expansions", "2"))
    replica("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1")
    in_step(master, replica)
    bloom, cuckoo = Bloom(0.01, 300), Cuckoo(500, 2, 20, 2)
    for i in range(400):
        bloom.add(b"%d" % i)
        cuckoo.add(b"%d" % i)
    for model in (bloom, cuckoo):
        master("RESTORE", model.kind, "0", redisbloom.payload(model, footer))
        load(master, model.kind, f"{model.kind} chunks", redisbloom.chunks(model))
    keys = ("BF", "BF chunks", "CF", "CF chunks")
    for key in keys:
        master(f"{key[:2]}.INSERT", key, "ITEMS", *range(1000, 21000))
    in_step(master, replica)
    same(replica("DEBUG", "DIGEST-VALUE", *keys), master("DEBUG", "DIGEST-VALUE", *keys))


def test_limits(context):
    """The most bytes hold for what is taken over, and for what comes after."""
    server, footer = start_trusting(context)
    server("CONFIG", "SET", "tamis.max-bytes", "100000")
    assert "Bad data format" in server.error("RESTORE", "f", "0", redisbloom.payload(Bloom(0.01, 200000), footer))
    (_, head), *_ = redisbloom.chunks(Bloom(0.01, 200000))
    assert "tamis.max-bytes" in server.error("BF.LOADCHUNK", "f", 1, head)
    for model in (Bloom(0.01, 5000), Cuckoo(4000, 2, 20, 1)):
        server("RESTORE", model.kind, "0", redisbloom.payload(model, footer))
        for start in range(0, 200000, 1000):
            server(f"{model.kind}.INSERT", model.kind, "ITEMS", *range(start, start + 1000))
        same(server("MEMORY", "USAGE", model.kind) < 110000, True)
        assert "full" in server.error(f"{model.kind}.ADD", model.kind, "one more")
        server("CONFIG", "SET", "tamis.max-bytes", "1000000")
        same(server(f"{model.kind}.ADD", model.kind, "one more"), 1)
        server("CONFIG", "SET", "tamis.max-bytes", "100000")
        server("DEBUG", "RELOAD")
        same(server(f"{model.kind}.EXISTS", model.kind, "one more"), 1)


def test_most_tables(context):
    """A cuckoo filter has as many tables as cf-max-expansions says; while they have room, items go in."""
    server, footer = start_trusting(context)
    server("RESTORE", "f", "0", redisbloom.payload(Cuckoo(128, 2, 20, 1), footer))
    for most in (3, 5):
        server("CONFIG", "SET", "tamis.cf-max-expansions", most)
        items, added = [f"{most} {i}" for i in range(2000)], 0
        while (reply := server.client.pipeline([["CF.ADD", "f", items[added]]])[0]) == 1:
            added += 1
        assert "Maximum expansions reached" in str(reply) and added, reply
        same(info(server, "CF.INFO", "f")["Number of filters"], most)
        same(server("CF.INSERT", "f", "ITEMS", items[added]), [-1])
        same(server("CF.ADDNX", "f", items[0]), 0)
        for item in items[:40]:
            same(server("CF.DEL", "f", item), 1)
        same(server("CF.ADD", "f", items[added]), 1)


def test_half(context):
    """A dump that has not come to its end: errors, and the state goes through restarts."""
    server = context.start("--appendonly", "yes", "--aof-use-rdb-preamble", "no")
    for sample in redisbloom.samples():
        kind, name = sample.kind, sample.name
        pieces = [sample.chunks[0]]
        for cursor, data in sample.chunks[1:]:  # in smaller parts, as any place may be an end
            at = len(data) // 3
            pieces += [(cursor - len(data) + at, data[:at]), (cursor, data[at:])]
        assert "cursor 1" in server.error(f"{kind}.LOADCHUNK", name, *pieces[1])
        for number, (cursor, data) in enumerate(pieces):
            same(server(f"{kind}.LOADCHUNK", name, cursor, data), "OK")
            same(server(f"{kind}.LOADCHUNK", name, cursor, data), "OK", "again")
            if number + 1 < len(pieces):
                assert "being restored" in server.error(f"{kind}.EXISTS", name, "x")
                assert "another dump" in server.error(f"{kind}.LOADCHUNK", name, 1, b"x" + sample.chunks[0][1][1:])
                error = server.error(f"{kind}.LOADCHUNK", name, cursor + len(data) + 9, b"x" * 8)
                assert re.search("RedisBloom made, .* comes next", error), error
        check_sample(server, sample, name)
    server("FLUSHALL")
    for sample in redisbloom.samples():
        load(server, sample.kind, sample.name, sample.chunks[:2])
    server.rewrite()
    for what in ("DEBUG RELOAD", "DEBUG LOADAOF"):
        server(*what.split())
    server.kill()
    server.start("--appendonly", "yes")
    for sample in redisbloom.samples():
        load(server, sample.kind, sample.name, sample.chunks[2:])
        check_sample(server, sample, sample.name)


def test_keys_of_both_types(context):
    """A key keeps the type that the file names; commands take either, and the other family's neither."""
    server, footer = start_trusting(context)
    server("RESTORE", "b", "0", redisbloom.payload(Bloom(0.01, 100), footer))
    server("RESTORE", "c", "0", redisbloom.payload(Cuckoo(100), footer))
    same([server("TYPE", key) for key in "bc"], ["MBbloom--", "MBbloomCF"])
    server("BF.ADD", "own", "a")
    same(server("TYPE", "own"), "tamis--bf")
    assert server.error("BF.ADD", "c", "a").startswith("WRONGTYPE")
    assert server.error("CF.ADD", "b", "a").startswith("WRONGTYPE")
    same(server("BF.EXISTS", "c", "a"), 0)
    assert "exists" in server.error("BF.RESERVE", "b", "0.01", "100")
    sizes = [server("BF.INFO", "b", "SIZE")[0], server("CF.INFO", "c")[1], server("BF.INFO", "own", "SIZE")[0]]
    wait_until(lambda: server.client.info("tamis", "tamis_bytes") == sum(sizes), f"the allocator gave {sizes}")
    for key in "bc":
        server("EXPIRE", key, "100000")
    server("BF.ADD", "b", "a")
    assert server("TTL", "b") > 90000


# ---- beside another module ----


def test_names_that_are_taken(context):
    """Beside a module that has BF.* and RedisBloom's type: the commands are TAMIS.BF.*, here, in files and on replicas,
    which need not have that module.  CF.* is as ever."""
    server = context.start("--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--loadmodule", context.beside("other_module"))
    replica = context.start("--replicaof", servers.HOST, server.port)
    assert "another module has bf.*" in server.log() and "reads its files" in server.log()
    in_step(server, replica)
    same(server("BF.ADD", "f", "a"), "other")
    same(server("TAMIS.BF.RESERVE", "f", "0.01", "100"), "OK")
    same(server("TAMIS.BF.MADD", "f", *range(300)).count(1) > 290, True)
    same(server("TAMIS.BF.ADD", "f", "a"), 1)
    same(server("TAMIS.BF.RESERVE", "w", "0.01", "100", "WINDOW", "2", "TTL", "1000"), "OK")
    same(server("TAMIS.BF.ADVANCE", "w"), "OK")
    same(server("CF.ADD", "c", "a"), 1)
    same(server("TAMIS.CF.EXISTS", "c", "a"), 1)
    for sample in redisbloom.samples()[:6]:
        load(server, f"TAMIS.{sample.kind}", sample.name, sample.chunks)
    in_step(server, replica)
    keys = ["f", "w", "c", *(sample.name for sample in redisbloom.samples()[:6])]
    digests = server("DEBUG", "DIGEST-VALUE", *keys)
    same(replica("DEBUG", "DIGEST-VALUE", *keys), digests)
    same(replica("BF.EXISTS", "f", "a"), 1)
    server("DEBUG", "LOADAOF")
    same(server("DEBUG", "DIGEST-VALUE", *keys), digests)
    server.rewrite()
    server.kill()
    server.start()
    same(server("DEBUG", "DIGEST-VALUE", *keys), digests)


# ---- the tool that moves a server ----


class Pretender:
    """A server with RedisBloom, as far as the tool asks it: answers come from the models."""

    def __init__(self, models):
        self.models, self.dumped, self.breaks_after, self.lies = models, [], None, {}
        self.left = {b"expires": 10**9}
        self.listener = socket.create_server((servers.HOST, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.converse, args=(connection, ), daemon=True).start()

    def converse(self, connection):
        with connection, connection.makefile("rb") as reader:
            while line := reader.readline():
                words = [reader.read(int(reader.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                reply = self.answer(*words)
                if reply is None:
                    return
                connection.sendall(reply)

    def answer(self, command, *words):
        command = command.decode().upper()
        family, _, name = command.rpartition(".")
        model = self.models.get(words[0]) if words else None
        if command == "SCAN":
            pattern = words[words.index(b"MATCH") + 1]
            return resp([b"0", [key for key in [*self.models, b"a string"] if fnmatch.fnmatchcase(key, pattern)]])
        if command == "TYPE":
            return b"+%s\r\n" % (model.type_name.encode() if model else b"string")
        if command == "PTTL":
            return resp(self.left.get(words[0], -1))
        if name == "MEXISTS":
            return resp([int(model.has(word)) for word in words[1:]])
        if name == "INFO" and family:
            figures = {b"Number of items inserted": model.count, b"Number of filters": len(model.layers)}
            if family == "CF":
                figures |= {b"Number of buckets": model.buckets, b"Number of items deleted": model.deleted, b"Bucket size":
                            model.bucket_size, b"Expansion rate": model.expansion, b"Max iterations": model.max_iterations}
            return resp([word for figure, value in figures.items() for word in (figure, self.lies.get(figure, value))])
        if name == "SCANDUMP":
            self.dumped.append(words[0])
            if self.breaks_after is not None and len(self.dumped) > self.breaks_after:
                return None
            pieces = [*redisbloom.chunks(model, 1500), (0, b"")] if model.count else [(0, None)]
            place = [0, *(cursor for cursor, _ in pieces)].index(int(words[1]))
            return resp(list(pieces[place]))
        return b"+PONG\r\n"


def resp(value):
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(map(resp, value))
    if isinstance(value, int):
        return b":%d\r\n" % value
    return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)


def test_import(context):
    """The tool moves all filters, goes on after it was interrupted, and finds out if an answer or a figure is wrong:
    then the target has what it had."""
    if subprocess.run(["/usr/bin/python3", "-c", "import redis"], capture_output=True).returncode:
        pytest.skip("no redis for Python")
    made, words = models()
    sources = {name.encode(): model for name, model, _ in made}
    sources[b"expires"] = sources[b"Cuckoo 2"]
    sources[b"empty"] = Cuckoo(1000, 4, 20, 2)
    pretender, server = Pretender(sources), context.start()
    state = server.folder / "state"

    def run(*options, to=server):
        return subprocess.run(["/usr/bin/python3", str(TOOL), f"redis://{servers.HOST}:{pretender.port}",
                               f"redis://{servers.HOST}:{to.port}", "--sample", "200", *options], capture_output=True, text=True)

    def temporary():
        return server("KEYS", "tamis-redis-import:*")

    sources[b"{tag}: with braces"] = sources[b"gone"] = sources[b"Bloom 1"]
    server("BF.ADD", "Bloom 0.5", "is here already")
    server("SET", "Cuckoo 3", "of another type")
    pretender.breaks_after = 12
    first = run("--state", state)
    assert first.returncode == 1 and "start it again to go on" in first.stderr, first
    before, pretender.breaks_after = set(pretender.dumped[:-1]), None
    half = pretender.dumped[-1]
    same([name.endswith(b":{%s}" % half) for name in temporary()], [True], "it has no name before it is whole")
    same(server("EXISTS", half), 0)
    server("EXPIRE", temporary()[0], 1000)  # as one that is not moved any more
    server("SET", temporary()[0].replace(half, b"gone"), "of an earlier run")
    server("SET", b"tamis-redis-import:another:{gone}", "of another server's")
    del sources[b"gone"]
    pretender.dumped.clear()
    second = run("--state", state)
    assert second.returncode == 1 and "Cuckoo 3" in second.stderr, second
    assert set(pretender.dumped) & before <= {half}, "what was done is not fetched again"
    same(temporary(), [b"tamis-redis-import:another:{gone}"])
    same(server("DEL", "Cuckoo 3"), 1)
    pretender.dumped.clear()
    third = run("--state", state)
    assert third.returncode == 0 and third.stdout.startswith("1 moved"), third
    same(set(pretender.dumped), {b"Cuckoo 3"})
    for key, model in sources.items():
        if key == b"empty":
            same(server("CF.EXISTS", key, "x"), 0)
        elif key != b"Bloom 0.5":
            agrees(server, model, key.decode(), words)
    assert 900_000 < server("TTL", "expires") <= 10**6 and server("TTL", half) == -1
    same(server("BF.CARD", "Bloom 0.5"), 1)
    replaced = run("--replace", "--match", "*", "--quiet")
    assert replaced.returncode == 0 and not replaced.stderr, replaced
    agrees(server, sources[b"Bloom 0.5"], "Bloom 0.5", words)
    liar = sources[b"Bloom 5"]
    liar.has = lambda word: True  # noqa: E731
    lied = run("--replace", "--match", "Bloom 5")
    assert lied.returncode == 1 and "Bloom 5" in lied.stderr and "not equal" in lied.stderr, lied
    del liar.has
    for figure in (b"Number of items inserted", b"Number of items deleted", b"Number of filters"):
        pretender.lies = {figure: 77}
        lied = run("--replace", "--match", "Cuckoo 7")
        assert lied.returncode == 1 and "0 moved" in lied.stdout and "not equal" in lied.stderr, (figure, lied)
    pretender.lies, pretender.left = {}, {b"Bloom 5": -2, b"Cuckoo 7": 0}
    expired = run("--replace", "--match", "*[57]")
    assert expired.returncode == 1 and expired.stderr.count("expired meanwhile") == 2, expired
    for key in ("Bloom 5", "Cuckoo 7"):
        agrees(server, sources[key.encode()], key, words)
    same(temporary(), [b"tamis-redis-import:another:{gone}"])
    without = servers.Server(context.kind, "")
    context.started.append(without)
    refused = run(to=without)
    assert refused.returncode == 2 and "has no module tamis" in refused.stderr, refused
    state.write_text("notes\nof somebody")
    refused = run("--state", state)
    assert refused.returncode == 2 and f"{state} was not written by --state" in refused.stderr, refused
    same(state.read_text(), "notes\nof somebody", "a file that is none of the tool's")
    pretender.listener.close()


def test_import_from_this_module(context):
    """Filters of this module stay as they are, also without items."""
    if subprocess.run(["/usr/bin/python3", "-c", "import redis"], capture_output=True).returncode:
        pytest.skip("no redis for Python")
    source, target = context.start(), context.start()
    for key, options in ("window", ("WINDOW", "3", "EVERY", "60000")), ("rate", ("ERROR", "1e-6")), ("full", ("EXPANSION", "0")):
        source("CF.RESERVE", key, "100", *options)
        source("CF.RESERVE", f"{key} 2", "100", *options)
        source("CF.ADD", f"{key} 2", "a")
    source("BF.RESERVE", "renewed", "0.01", "20", "WINDOW", "3", "RENEWS")
    for command in ["MADD", *range(200)], ["ADVANCE"], ["MADD", *range(200)]:
        source(f"BF.{command[0]}", "renewed", *command[1:])
    subprocess.run(["/usr/bin/python3", str(TOOL), *(f"redis://{servers.HOST}:{each.port}" for each in (source, target))], check=True)
    for key in source("KEYS", "*"):
        same(target("DEBUG", "DIGEST-VALUE", key), source("DEBUG", "DIGEST-VALUE", key), key)
