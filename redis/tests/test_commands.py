# SPDX-License-Identifier: MIT
"""Every command and option of the module, in RESP2 and RESP3: the values and the types of replies are
RedisBloom's, and so are the texts of errors that clients compare.
"""
import pathlib
import re
import subprocess

import pytest
import server as servers
from check_documents import marked
from filters import chunks, info
from server import ReplyError, same, wait_until

SAMPLES = {  # a call of each command with a key in the place of {}
    "BF.RESERVE": "{} 0.01 100", "BF.ADD": "{} a", "BF.MADD": "{} a", "BF.MADDEX": "{} 1 a", "BF.INSERT": "{} ITEMS a",
    "BF.EXISTS": "{} a", "BF.MEXISTS": "{} a", "BF.CARD": "{}", "BF.INFO": "{}",
    "BF.SCANDUMP": "{} 0", "BF.LOADCHUNK": "{} 1 a", "BF.LOAD": "{} a", "CF.RESERVE": "{} 100", "CF.ADD": "{} a",
    "CF.ADDNX": "{} a", "CF.INSERT": "{} ITEMS a", "CF.INSERTNX": "{} ITEMS a", "CF.EXISTS": "{} a",
    "CF.MEXISTS": "{} a", "CF.DEL": "{} a", "CF.COUNT": "{} a", "CF.COMPACT": "{}", "CF.INFO": "{}",
    "CF.SCANDUMP": "{} 0", "CF.LOADCHUNK": "{} 1 a", "BF.ADVANCE": "{}", "CF.ADVANCE": "{}",
}
REFUSALS = """
ERR (0 < error rate range < 1): BF.RESERVE q 0 100; BF.RESERVE q 1 100; BF.RESERVE q -0.5 100; BF.RESERVE q inf 100
ERR (0 < error rate range < 1): CF.RESERVE q 100 ERROR 0; BF.INSERT q ERROR 1 ITEMS a; CF.INSERTNX q ERROR 0 ITEMS a
ERR (capacity should be larger than 0): BF.RESERVE q 0.01 0; CF.RESERVE q -1; BF.INSERT q CAPACITY 0 ITEMS a
ERR (capacity should be at most 1099511627776, which is 2^40): BF.RESERVE q 0.01 9223372036854775807
ERR Capacity must be at least (BucketSize * 2): CF.RESERVE q 1; CF.INSERT q CAPACITY 3 ITEMS a
ERR bad capacity: BF.RESERVE q 0.01 x; BF.RESERVE q 0.01 18446744073709551616; BF.RESERVE b 0.01 007; BF.RESERVE q 0.01 +5
ERR Bad capacity: CF.RESERVE q x; BF.INSERT q CAPACITY 0.3 ITEMS a; CF.INSERTNX q CAPACITY 5 CAPACITY y ITEMS a
ERR bad error rate: BF.RESERVE q zero 100; BF.RESERVE q nan 100; CF.RESERVE q 100 ERROR x
ERR bad capacity: BF.INSERT q VALIDATESCALETO x ITEMS a; BF.INSERT q VALIDATESCALETO -1
ERR (capacity should be larger than 0): BF.INSERT q VALIDATESCALETO 0 ITEMS a
ERR cannot use NONSCALING and VALIDATESCALETO options together: BF.INSERT q NONSCALING VALIDATESCALETO 9; BF.INSERT b EXPANSION 0 VALIDATESCALETO 9
ERR VALIDATESCALETO needs a filter without a WINDOW: BF.INSERT q WINDOW 3 VALIDATESCALETO 9 ITEMS a
ERR provided VALIDATESCALETO causes bloom object to exceed memory limit: BF.INSERT b VALIDATESCALETO 9223372036854775807 ITEMS a
ERR bad tightening ratio: BF.INSERT q TIGHTENING x ITEMS a; BF.INSERT q TIGHTENING nan ITEMS a
ERR (0 < tightening ratio range < 1): BF.INSERT q TIGHTENING 0 ITEMS a; BF.INSERT q TIGHTENING 1
ERR the filter has no tightening ratio: its layers take parts of the rate by another rule: BF.INFO b TIGHTENING
ERR Bad error rate: BF.INSERT q ERROR x ITEMS a; CF.INSERT q ERROR x ITEMS a
ERR Nonscaling filters cannot expand: BF.RESERVE q 0.01 100 NONSCALING EXPANSION 2
ERR no expansion: BF.RESERVE q 0.01 100 EXPANSION
ERR bad expansion: BF.RESERVE q 0.01 100 EXPANSION x
ERR Bad expansion: BF.INSERT q EXPANSION x ITEMS a
ERR expansion must be in the range [0, 32768]: BF.RESERVE q 0.01 100 EXPANSION -1; BF.RESERVE q 0.01 100 EXPANSION 32769
ERR EXPANSION: value must be in the range [0, 32768]: CF.RESERVE q 100 EXPANSION -1
ERR BUCKETSIZE: value must be in the range [1, 255]: CF.RESERVE q 100 BUCKETSIZE 0; CF.RESERVE q 100 BUCKETSIZE 256
ERR MAXITERATIONS: value must be in the range [1, 65535]: CF.RESERVE q 100 MAXITERATIONS 0
ERR Couldn't parse BUCKETSIZE: CF.RESERVE q 100 BUCKETSIZE x
ERR Couldn't parse MAXITERATIONS: CF.RESERVE q 100 MAXITERATIONS x
ERR Couldn't parse EXPANSION: CF.RESERVE q 100 EXPANSION x
ERR Unknown argument received: CF.RESERVE q 100 WORD 1; BF.INSERT q WORD ITEMS a; CF.INSERT q EXPANSION 1 ITEMS a
ERR Unknown argument received: CF.INSERT q TIGHTENING 0.5 ITEMS a; CF.INSERT q VALIDATESCALETO 9 ITEMS a
ERR bad seed: BF.RESERVE q 0.1 9 SEED -1; CF.RESERVE q 9 SEED +1; BF.RESERVE q 0.1 9 SEED 0x; CF.RESERVE q 9 SEED 1x
ERR bad seed: BF.RESERVE q 0.1 9 SEED EXPANSION; BF.RESERVE q 0.1 9 SEED 18446744073709551616
ERR bad seed: CF.RESERVE q 9 SEED 0x10000000000000000
ERR only one SEED: BF.RESERVE q 0.01 100 SEED 1 SEED 2
ERR WINDOW: value must be an integer between 1 and 64, inclusive.: BF.RESERVE q 0.1 9 WINDOW 0; CF.RESERVE q 9 WINDOW 65
ERR EVERY, NEXT and RENEWS need a WINDOW, and NEXT needs EVERY: BF.RESERVE q 0.1 9 EVERY 1; CF.RESERVE q 9 RENEWS
ERR bad EVERY: BF.RESERVE q 0.01 100 WINDOW 3 EVERY x
ERR bad MAXBYTES: BF.RESERVE q 0.01 100 MAXBYTES x
ERR bad number of periods: BF.ADVANCE b x
ERR invalid expire time in TTL: BF.RESERVE q 0.1 9 TTL 0; CF.RESERVE q 9 TTL -1; CF.RESERVE q 9 TTL x; BF.RESERVE q 0.1 9 TTL 4611686018427387904
ERR item exists: BF.RESERVE b 0.01 100 TTL 1; CF.RESERVE c 100 TTL 1; CF.RESERVE c 100; CF.LOADCHUNK c 1 y
ERR not found: BF.INSERT q NOCREATE ITEMS a; CF.INSERTNX q NOCREATE ITEMS a; BF.INFO q ADVICE; CF.SCANDUMP q 0; BF.MERGE b q
ERR Not found: CF.DEL q a; CF.DEL s a; CF.DEL b a
ERR Cuckoo filter was not found: CF.COMPACT q; CF.COMPACT s
ERR Invalid information value: BF.INFO b NONSENSE; BF.INFO full MAXSCALEDCAPACITY; BF.INFO full TIGHTENING; BF.INFO bw MAXSCALEDCAPACITY
ERR non scaling filter is full: BF.ADD full d
ERR Filter is full: CF.ADD still d
ERR Second argument must be numeric: BF.SCANDUMP b x; BF.LOADCHUNK b x y
ERR Invalid position: CF.SCANDUMP c x; CF.SCANDUMP c -5; CF.LOADCHUNK c x y; CF.LOADCHUNK q 0 y
ERR received bad data: BF.LOADCHUNK q 1 y; BF.LOADCHUNK b 1 y; BF.LOADCHUNK b 0 y
ERR Couldn't create filter!: CF.LOADCHUNK q 1 y
ERR Couldn't load chunk!: CF.LOADCHUNK c 2 y
ERR bad number of periods: CF.INSERT w PERIODS x ITEMS a; BF.INSERT q WINDOW 9 PERIODS -1 ITEMS a; CF.INSERTNX w PERIODS 65 ITEMS a
ERR invalid expire time in EX: BF.MADDEX q 0 a; CF.INSERT w EX x ITEMS a; BF.INSERT b EX 2305843009213694 ITEMS a
ERR the filter has no window: BF.ADVANCE b; CF.ADVANCE c; BF.MADDEX b 1 a; BF.MADDEX q 1 a; CF.INSERTNX q PERIODS 0 ITEMS a
ERR the filter's window has no EVERY: say PERIODS: CF.INSERT w EX 1 ITEMS a; BF.INSERT q WINDOW 3 EX 1 ITEMS a
ERR the filter's window is shorter: CF.INSERT w PERIODS 4 ITEMS a; BF.INSERT q WINDOW 3 EVERY 500 EX 2 ITEMS a
ERR the filters do not fit together: they need the same capacity, rate, EXPANSION 0 or not, SEED and WINDOW: BF.MERGE b full
WRONGTYPE Operation against a key holding the wrong kind of value: BF.RESERVE s 0.1 9; CF.ADD b a; BF.CARD c; CF.LOADCHUNK s 1 y
"""
WRONG_NUMBERS = """BF.RESERVE q 0.1 9 a b c d; BF.RESERVE q 0.1 9 NONSCALING a b c; BF.RESERVE q 0.1 9 TTL; CF.RESERVE q 9 TTL; CF.RESERVE q 9 WORD
CF.RESERVE q 9 EXPANSION 2 MAXITERATIONS; CF.RESERVE q 9 BUCKETSIZE 4 BUCKETSIZE; CF.RESERVE q 9 SEED 1 EXPANSION
BF.INSERT q EX; BF.INSERT q NOCREATE; BF.INSERT q ITEMS; BF.INSERT q NOCREATE ITEMS; BF.INSERT q NOCREATE CAPACITY; CF.INSERTNX q NOCREATE ITEMS
CF.INSERT q CAPACITY 9; BF.INSERT q WINDOW 3 PERIODS 1; BF.INSERT q TIGHTENING; BF.INSERT q VALIDATESCALETO
BF.EXISTS q b KEY; CF.EXISTS q b KEY; BF.INFO b CAPACITY SIZE; CF.INFO c SIZE; CF.COMPACT c x""".replace("\n", "; ")


@pytest.fixture(params=[2, 3])
def talk(request, server):
    """A connection in each protocol to an empty server, and what it says for yes and for no."""
    client = server.connect(request.param)
    yield client, *((1, 0) if request.param == 2 else (True, False))
    client.close()


def test_refusals(talk):
    """Clients and their tests compare these texts; and an error creates nothing."""
    client, _, _ = talk
    for command in ("BF.ADD b a", "CF.ADD c a", "SET s x", "CF.RESERVE w 9 WINDOW 3", "BF.RESERVE bw 0.1 9 WINDOW 3", "BF.RESERVE full 1e-6 2 NONSCALING", "BF.MADD full a b"):
        client(*command.split())
    client("CF.RESERVE", "still", "4", "EXPANSION", "0", "SEED", "1")
    client.pipeline([["CF.ADD", "still", i] for i in range(40)])
    for line in REFUSALS.strip().splitlines():
        error, _, commands = line.rpartition(": ")
        for command in commands.split("; "):
            same(client.error(*command.split()), error, command)
    for command in [*WRONG_NUMBERS.split("; "), *SAMPLES, *(f"{name} q" for name in SAMPLES if SAMPLES[name] != "{}")]:
        same(client.error(*command.split()), f"ERR wrong number of arguments for '{command.split()[0].lower()}' command", command)
    for family in ("BF", "CF"):
        for seed in (b"", b"1\0", b" 1"):
            client.error(f"{family}.RESERVE", "q", *["0.1"] * (family == "BF"), "9", "SEED", seed)
        assert "it is none of this module's" in client.error(f"{family}.LOADCHUNK", "q", 77, b"foreign")
    same(client("EXISTS", "q"), 0)


def test_options(talk):
    """What is accepted: words that BF.RESERVE overlooks, rates close to 1, options twice (of RESERVE the first one counts,
    of INSERT the last one), names in any case."""
    client, yes, no = talk
    for words in ("unused", "a b c", "EXPANSION 4 unused", "unused SEED 5", "NONSCALING EXPANSION 0", "expansion 1"):
        same(client("bf.reserve", words, "0.01", "100", *words.split()), "OK", words)
    same(info(client, "BF.INFO", "EXPANSION 4 unused")["Expansion rate"], 4)
    for rate, size in (("0.95", 8), ("0.99", 3), ("0.9999999999999999", 100)):
        same(client("BF.RESERVE", rate, rate, size, "NONSCALING"), "OK")
        client("BF.ADD", rate, "a")
        same(client("BF.EXISTS", rate, "a"), yes)
    same(client(*"CF.RESERVE c 1000 BUCKETSIZE 4 BUCKETSIZE 2 EXPANSION 2 EXPANSION x".split()), "OK")
    same([info(client, "CF.INFO", "c")[name] for name in ("Bucket size", "Expansion rate")], [4, 2])
    same(client(*"BF.INSERT b CAPACITY 500 CAPACITY 9000 EXPANSION 3 EXPANSION 4 ITEMS a".split()), [yes])
    same([info(client, "BF.INFO", "b")[name] for name in ("Capacity", "Expansion rate")], [9000, 4])
    same(client(*"BF.INSERT i NONSCALING EXPANSION 4 CAPACITY 4 ITEMS a".split()), [yes])
    same(info(client, "BF.INFO", "i")["Expansion rate"], None, "it does not scale, whatever EXPANSION says")
    same(client("bf.insert", "i", "nocreate", "items", b"x" * 100000, b""), [yes, yes])
    for kind in ("BF", "CF"):
        client(f"{kind}.ADD", f"{kind} f", "a")
        same(client(f"{kind}.EXISTS", f"{kind} f", "a", "WITHKEY"), yes)
        same(client(f"{kind}.EXISTS", f"{kind} f", "b", "withkey"), no)
        same(client(f"{kind}.EXISTS", "missing", "b", "WITHKEY"), None, "it tells a missing key from a missing item")


def test_words_of_valkey_bloom(talk):
    """BF.INSERT may just create a filter, with a seed of 32 bytes; BF.INFO has three more fields."""
    client, yes, _ = talk
    create = "CAPACITY 1000 ERROR 0.001 TIGHTENING 0.5 VALIDATESCALETO 1000000".split()
    for key, seed in (("a", b"\0" * 32), ("b", b"\0" * 32), ("c", b"\0" * 31 + b"\1")):
        same(client("BF.INSERT", key, *create, "SEED", seed), [])
        same(client("BF.INSERT", key, "CAPACITY", 5), [], "a filter that is there")
        same(client("BF.INSERT", key, "VALIDATESCALETO", 5, "ITEMS", key), [yes])
        same(info(client, "BF.INFO", key)["Capacity"], 1000)
    same(client("BF.INSERT", "fixed", "NONSCALING"), [])
    same(info(client, "BF.INFO", "fixed")["Expansion rate"], None)
    same(client("BF.MERGE", "a", "b"), "OK")
    assert "do not fit" in client.error("BF.MERGE", "a", "c")
    same(client("BF.INFO", "a", "error"), 0.001 if yes is True else b"0.001")
    same(client("BF.INFO", "a", "MAXSCALEDCAPACITY"), 1000 << 17)


def test_full(talk):
    """A batch brings as many items as find room.  BF.MADD ends with the error; CF.INSERT says -1 of the others, or false in
    RESP3, where CF.INSERTNX has numbers."""
    client, yes, no = talk
    client(*"CF.RESERVE cuckoo 100 EXPANSION 0 SEED 1".split())
    same(client("CF.INSERT", "cuckoo", "ITEMS", *range(101)), [yes] * 100 + [no if no is False else -1])
    same(client("CF.INSERTNX", "cuckoo", "ITEMS", 0, 100), [0, -1])
    client(*"BF.RESERVE bloom 1e-6 3 NONSCALING".split())
    reply = client("BF.MADD", "bloom", *"abcade")
    same([*reply[:-1], str(reply[-1])], [yes, yes, yes, no, "ERR non scaling filter is full"])
    client.error("BF.ADD", "bloom", "d")
    same(client("BF.CARD", "bloom"), 3, "what is refused does not count")
    client(*"BF.RESERVE window 0.01 100 WINDOW 2 MAXBYTES 20000 SEED 1".split())
    batches = client.pipeline([["BF.MADD", "window", *range(start, start + 100)] for start in range(0, 10000, 100)])
    assert any(len(batch) < 100 for batch in batches), "the window is full"
    same(client("BF.CARD", "window"), sum(batch.count(yes) for batch in batches), "nothing is added after the error")


def test_merge_of_several(talk):
    """The destination may be among the sources, and have more layers than they; an error changes nothing."""
    client, yes, _ = talk
    for key, size in (("a", 100), ("b", 2000), ("c", 300)):
        client(*f"BF.RESERVE {key} 1e-6 100 SEED 5".split())
        client("BF.MADD", key, *(f"{key}{i}" for i in range(size)))
    same(client(*"BF.MERGE b b a c".split()), "OK")
    same(client("BF.MEXISTS", "b", *(f"{key}{i}" for key in "abc" for i in range(100))), [yes] * 300)
    client("BF.ADD", "other", "of another size")
    before = client("DUMP", "a")
    assert "do not fit" in client.error(*"BF.MERGE a b other".split())
    same(client("DUMP", "a"), before)


def test_last_chunk_again(talk):
    """As after a reply that was lost: it is accepted, and changes nothing; the first one is not."""
    client, yes, _ = talk
    for kind, reserve in (("BF", ("0.01", "60")), ("CF", ("60",))):
        client(f"{kind}.RESERVE", kind, *reserve)
        client(f"{kind}.INSERT", kind, "ITEMS", *range(500))
        pieces = chunks(client, kind, kind)
        for number in (pieces[-1][0], 7, 1 << 20, 5 << 20 | 1, 1 << 40):
            same(client(f"{kind}.SCANDUMP", kind, number), [0, None if kind == "CF" else b""], "no cursor")
        for chunk in (*pieces, pieces[-1]):
            same(client(f"{kind}.LOADCHUNK", "g", *chunk), "OK")
        client(f"{kind}.ADD", "g", "more")
        same(client(f"{kind}.LOADCHUNK", "g", *pieces[-1]), "OK", "also when others have added meanwhile")
        same(client(f"{kind}.EXISTS", "g", "more"), yes)
        client.error(f"{kind}.LOADCHUNK", kind, *pieces[0])
        for data in (b"", bytes(5 << 20), pieces[0][1][:-1], b"x" + pieces[0][1][1:]):
            same(client.error(f"{kind}.LOADCHUNK", "h", 1, data),
                 "ERR received bad data" if kind == "BF" else "ERR Couldn't create filter!")
        client("DEL", "g")


def test_seeds(talk):
    """SEED is a number, decimal or hexadecimal, or RANDOM: equal seeds make equal filters."""
    client, _, _ = talk
    for kind, reserve, wide in (("BF", ("1e-6", "4"), "NONSCALING"), ("CF", ("4",), None)):
        keys = {"decimal": "123", "hex": "0x7b", "zero": "0", "zero again": "0x0", "most": str(2**64 - 1),
                "random": "random", "random again": "RaNdOm"}
        for key, seed in keys.items():
            same(client(f"{kind}.RESERVE", key, *reserve, "SEED", seed, "EXPANSION", "2"), "OK")
            client(f"{kind}.INSERT", key, "ITEMS", *range(100))
        dumps = {key: chunks(client, kind, key) for key in keys}
        same(dumps["decimal"], dumps["hex"])
        same(dumps["zero"], dumps["zero again"])
        assert len({str(dump) for dump in dumps.values()}) == 5, "other seeds, other filters"
        if wide:
            same(client(f"{kind}.RESERVE", "w", *reserve, "SEED", "1", wide), "OK")
        client("FLUSHALL")


def test_bf_info(talk):
    client, yes, _ = talk
    client("BF.RESERVE", "f", "0.001", "1000")
    client("BF.MADD", "f", "a", "b")
    same(isinstance(client("BF.INFO", "f"), dict), yes is True, "a map in RESP3")
    figures = info(client, "BF.INFO", "f")
    assert 1000 * 1.7 < figures["Size"] < 8192, figures
    same(list(figures.items()), [("Capacity", 1000), ("Size", figures["Size"]), ("Number of filters", 1),
                                 ("Number of items inserted", 2), ("Expansion rate", 2)])
    for value, field in zip(figures.values(), ("CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION")):
        for word in (field, field.lower()):
            reply = client("BF.INFO", "f", word)
            same(list(reply.values()) if isinstance(reply, dict) else reply, [value], word)
    client("BF.RESERVE", "n", "0.001", "1000", "NONSCALING")
    same(info(client, "BF.INFO", "n")["Expansion rate"], None)


def test_cf_info(talk):
    client, yes, _ = talk
    client("CF.RESERVE", "f", "1000")
    client("CF.INSERT", "f", "ITEMS", "a", "b", "c")
    client("CF.DEL", "f", "a")
    same(isinstance(client("CF.INFO", "f"), dict), yes is True)
    figures = info(client, "CF.INFO", "f")
    same(list(figures.items()), [("Size", figures["Size"]), ("Number of buckets", 512), ("Number of filters", 1),
                                 ("Number of items inserted", 2), ("Number of items deleted", 1), ("Bucket size", 2),
                                 ("Expansion rate", 1), ("Max iterations", 20)])
    client("CF.COMPACT", "f")
    same(info(client, "CF.INFO", "f")["Number of items deleted"], 0)
    for size, bucket, expected in ((1000, 2, 512), (10, 2, 8), (9, 2, 4), (64, 1, 64), (10000, 2, 8192)):
        client("CF.RESERVE", f"g{size}", size, "BUCKETSIZE", bucket, "MAXITERATIONS", 30)
        same(info(client, "CF.INFO", f"g{size}")["Number of buckets"], expected)
        same(client("CF.DEBUG", f"g{size}").decode(), f"bktsize:{bucket} buckets:{expected} items:0 deletes:0 "
             "filters:1 max_iterations:30 expansion:1")


# ---- all commands ----


READ_ONLY = {"BF.EXISTS", "BF.MEXISTS", "BF.CARD", "BF.INFO", "BF.SCANDUMP", "CF.EXISTS", "CF.MEXISTS",
             "CF.COUNT", "CF.INFO", "CF.SCANDUMP"}


FAST = {"BF.RESERVE", "BF.ADD", "BF.MADD", "BF.MADDEX", "BF.INSERT", "BF.EXISTS", "BF.MEXISTS", "BF.CARD", "BF.INFO",
        "CF.RESERVE", "CF.EXISTS", "CF.MEXISTS", "CF.COUNT", "CF.DEL", "CF.COMPACT", "CF.INFO",
        "BF.ADVANCE", "CF.ADVANCE"}
FREES = {"CF.DEL", "CF.COMPACT", "BF.ADVANCE", "CF.ADVANCE"}  # allowed when memory is short


def test_command_table(context):
    """What clients, proxies and clusters learn about commands: keys, flags, arity."""
    client = context.server().connect()
    for name in SAMPLES:
        (row,) = client("COMMAND", "INFO", name)
        assert row, f"no command {name}"
        flags = row[2]
        same(row[0], name.lower().encode(), "names are in small letters, as the server's own")
        same(row[3:6], [1, 1, 1], f"{name}: keys")
        same("fast" in flags, name in FAST, f"{name}: {flags}")
        same("readonly" in flags, name in READ_ONLY, f"{name}: {flags}")
        same("write" in flags, name not in READ_ONLY, f"{name}: {flags}")
        same("denyoom" in flags, name not in READ_ONLY | FREES, f"{name}: {flags}")
        same(client("COMMAND", "GETKEYS", name, *SAMPLES[name].format("key").split()), [b"key"], name)


# ---- around the commands ----


def test_acl(context):
    client = context.server().connect()
    client("BF.ADD", "data:f", "a")
    client("ACL", "SETUSER", "reader", "on", ">pw", "~data:*", "+bf.exists", "+bf.info", "+@read", "-@write", "+hello")
    client("ACL", "SETUSER", "writer", "on", ">pw", "~data:*", "+bf.add", "+cf.add")
    client("ACL", "SETUSER", "merger", "on", ">pw", "%R~data:*", "%W~out:*", "+bf.merge")
    reader, writer, merger = (context.shared.connect() for _ in range(3))
    for user, name in ((reader, "reader"), (writer, "writer"), (merger, "merger")):
        user("AUTH", name, "pw")
    same(reader("BF.EXISTS", "data:f", "a"), 1)
    assert "NOPERM" in reader.error("BF.ADD", "data:f", "b")
    assert "NOPERM" in reader.error("BF.EXISTS", "other:f", "a")
    same(writer("BF.ADD", "data:f", "b"), 1)
    assert "NOPERM" in writer.error("BF.ADD", "other:f", "b")
    assert "NOPERM" in writer.error("BF.RESERVE", "data:g", "0.01", "10")
    same(merger("BF.MERGE", "out:f", "data:f"), "OK")
    assert "NOPERM" in merger.error("BF.MERGE", "data:f", "data:f")
    assert "NOPERM" in merger.error("BF.MERGE", "out:f", "out:f")
    client("ACL", "DELUSER", "reader", "writer", "merger")


def test_acl_categories(context):
    """Who may not write may not add, and who may write may; the server's own categories have every command."""
    client = context.server().connect()
    try:
        client("ACL", "CAT", "bloom")
    except ReplyError:
        pytest.skip("this server has no categories for commands of modules")
    for name in client("COMMAND", "LIST"):
        name = name.decode()
        if name[:3] not in ("bf.", "cf."):
            continue
        (info,) = client("COMMAND", "INFO", name)
        flags, listed = ({word if isinstance(word, str) else word.decode() for word in info[i]} for i in (2, 6))
        expected = {"@write" if "write" in flags else "@read", "@fast" if "fast" in flags else "@slow",
                    "@bloom" if name[0] == "b" else "@cuckoo"}
        same(sorted(listed), sorted(expected), name)
    commands = {category: client("COMMAND", "LIST", "FILTERBY", "ACLCAT", category) for category in ("bloom", "cuckoo", "write")}
    assert b"tamis.bf.add" in commands["bloom"] and b"cf.del" in commands["cuckoo"] and b"bf.card" not in commands["write"]
    client("BF.ADD", "f", "a")
    commands = {"BF.EXISTS f a": "bloom read", "BF.INFO f": "bloom read", "BF.SCANDUMP f 0": "bloom read", "GET s": "read",
                "BF.ADD f b": "bloom write", "CF.ADD c b": "cuckoo write", "CF.DEL c b": "cuckoo write"}
    for rules, allowed in (("+@all -@write", "read"), ("+@read +@write", "read write"), ("+@read", "read"), ("+@all -@read", "write"),
                           ("+@write", "write"), ("+@bloom", "bloom"), ("+@cuckoo", "cuckoo")):
        client("ACL", "SETUSER", "someone", "reset", "on", ">pw", "~*", *rules.split(), "+auth")
        user = context.shared.connect()
        user("AUTH", "someone", "pw")
        for words, categories in commands.items():
            (reply,) = user.pipeline([words])
            same("NOPERM" not in str(reply), any(each in allowed for each in categories.split()), f"{rules}: {words}")
        user.close()
    client("ACL", "DELUSER", "someone")


def text(word):
    return word.decode() if isinstance(word, bytes) else word


def figures(client):
    lines = client("INFO", "tamis").decode().splitlines()
    return {name: value for name, _, value in (line.partition(":") for line in lines if ":" in line)}


def test_info_of_all(context):
    """INFO tamis: what there is, and what has happened, in all filters together."""
    server = context.start()
    empty = figures(server)
    same([empty[f"tamis_{name}"] for name in ("bloom_filters", "cuckoo_filters", "foreign_filters", "adds")], ["0"] * 4)
    assert empty["tamis_version"].count(".") == 2 and empty["tamis_build"].startswith("compiler")
    server("BF.RESERVE", "b", "0.01", "100", "NONSCALING", "SEED", "1")
    server("BF.MADD", "b", *range(150))
    server("CF.INSERT", "c", "ITEMS", *range(50000))
    server("COPY", "c", "d")
    server("BF.MADD", "b", "refused")
    now = figures(server)
    same([now[f"tamis_{name}"] for name in ("bloom_filters", "cuckoo_filters", "adds")], ["1", "2", "50100"])
    same(int(now["tamis_refused_adds"]), 2)
    used = sum(server("MEMORY", "USAGE", key, "SAMPLES", "0") for key in "bcd")
    assert 0.9 * used < int(now["tamis_bytes"]), (used, now)
    wait_until(lambda: int(figures(server)["tamis_bytes"]) < 1.3 * used + 20000, "what growth has left behind is back")
    now = figures(server)
    assert int(now["tamis_largest_filter_bytes"]) >= server("MEMORY", "USAGE", "c") - 200 > 50000
    assert int(now["tamis_longest_growth_step_microseconds"]) > 0
    server("DEL", "b", "c")
    server("UNLINK", "d")
    wait_until(lambda: figures(server)["tamis_cuckoo_filters"] == "0", "all are gone")
    wait_until(lambda: int(figures(server)["tamis_bytes"]) < int(empty["tamis_bytes"]) + 5000, "all memory is back")
    modules = [{text(name): value for name, value in zip(each[::2], each[1::2])} for each in server("MODULE", "LIST")]
    (module,) = [each for each in modules if text(each["name"]) == "tamis"]  # servers may have some of their own
    same("%d.%d.%d" % (module["ver"] // 10000, module["ver"] // 100 % 100, module["ver"] % 100), now["tamis_version"])


def test_advice(talk):
    """Sentences about what to change, for each reason one."""
    client, _, _ = talk
    client("BF.RESERVE", "fine", "0.01", "100")
    client("BF.MADD", "fine", *range(60))
    client("BF.MADD", "layers", *range(5000))
    client("BF.RESERVE", "empty", "0.001", "1000000")
    client("BF.RESERVE", "full", "0.01", "100", "NONSCALING")
    client.pipeline([["BF.MADD", "full", *range(150)]])
    client("BF.RESERVE", "nearly", "0.01", "100", "NONSCALING", "SEED", "1")
    client("BF.MADD", "nearly", *range(99))
    client("BF.RESERVE", "window", "0.001", "5000", "WINDOW", "4", "NONSCALING", "MAXBYTES", "20000")
    client("BF.MADD", "window", *range(4000))
    client("CF.RESERVE", "bytes", "1000", "MAXBYTES", "50000")
    client.pipeline([["CF.INSERT", "bytes", "ITEMS", *range(i, i + 1000)] for i in range(0, 60000, 1000)])
    for kind, key, word in (("BF", "fine", "nothing to say"), ("BF", "layers", "layers"), ("BF", "empty", "Less than a tenth"),
                            ("BF", "full", "is full"), ("BF", "nearly", "has room for 1 more item."),
                            ("BF", "window", "nothing to say"), ("CF", "bytes", "MAXBYTES")):
        advice = [text(sentence) for sentence in client(f"{kind}.INFO", key, "ADVICE")]
        assert any(word in sentence for sentence in advice), (key, advice)
        assert all(sentence.endswith(".") for sentence in advice), advice
        same(len(advice), 1, key)


def test_time_to_live(context):
    """RESERVE with TTL: the key expires, here and on whoever follows."""
    server = context.start("--notify-keyspace-events", "KEA", "--appendonly", "yes")
    for kind, reserve in (("BF", ("0.01", "100")), ("CF", ("100",))):
        same(server(f"{kind}.RESERVE", "f", *reserve, "TTL", "1000000"), "OK")
        assert 900_000 < server("TTL", "f") <= 10**6
        server("DEBUG", "LOADAOF")
        assert 900_000 < server("TTL", "f") <= 10**6
        listener = server.connect()
        listener("SUBSCRIBE", "__keyspace@0__:h")
        server(f"{kind}.RESERVE", "h", *reserve, "TTL", "1")
        events = [listener.receive()[2].decode() for _ in range(2)]
        assert events[-1] == "expire" and events[-2].endswith(".reserve"), events
        wait_until(lambda: not server("EXISTS", "h"), "it expires")
        server("DEL", "f")


def test_cluster_slots(context):
    """In a cluster, all keys of a command are in one slot."""
    server = context.start("--cluster-enabled", "yes")
    server("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
    wait_until(lambda: b"cluster_state:ok" in server("CLUSTER", "INFO"), "the cluster is up")
    for kind in ("BF", "CF"):
        server(f"{kind}.ADD", "{x}a", "1")
        same(server(f"{kind}.MERGE", "{x}b", "{x}a"), "OK")
        same(server.error(f"{kind}.MERGE", "{y}b", "{x}a")[:9], "CROSSSLOT")
        same(server.error(f"{kind}.MERGE", "{x}c", "{x}a", "{y}a")[:9], "CROSSSLOT")
        server("FLUSHALL")


def test_documents(context):
    """What the documents show of redis-cli is what it prints."""
    for block in marked(pathlib.Path(__file__).resolve().parents[2], "redis/tests/test_commands.py"):
        server = context.start()
        typed = re.findall(r"^> (.*\n)", block.text, re.M)
        said = subprocess.run(["redis-cli", "--no-raw", "-h", servers.HOST, "-p", str(server.port)], input="".join(typed),
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        same(said, re.sub(r"^> .*\n", "", block.text, flags=re.M), f"{block.document}:{block.line}")
