#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every command and option of the module, in RESP2 and RESP3: the values and the types of replies are
RedisBloom's, and so are the texts of errors that clients compare.

    test_commands.py --server redis|valkey --module PATH [WORD ...]
"""
import pathlib
import re
import subprocess

import server as servers
from check_documents import marked
from filters import chunks
from server import ReplyError, same, wait_until

WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


def protocols(context):
    """For each protocol a connection to an empty server, and what it says for yes and for no."""
    for protocol, yes, no in ((2, 1, 0), (3, True, False)):
        client = context.server().connect(protocol)
        yield client, yes, no
        client.close()


def error_has(client, words, *parts):
    text = client.error(*words.split())
    for part in parts:
        assert part.lower() in text.lower(), f"{words}: {text!r} without {part!r}"


def info(client, command, key):
    """The reply of BF.INFO or CF.INFO as a dict, in either protocol."""
    reply = client(command, key)
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {name if isinstance(name, str) else name.decode(): value for name, value in pairs}


# ---- Bloom filters ----


def test_bf_reserve(context):
    for client, yes, _ in protocols(context):
        same(client("BF.RESERVE", "a", "0.01", "1000"), "OK")
        same(client("BF.RESERVE", "b", "0.01", "1000", "EXPANSION", "4"), "OK")
        same(client("BF.RESERVE", "c", "0.01", "1000", "NONSCALING"), "OK")
        same(client("bf.reserve", "d", "1e-6", "1000", "expansion", "1"), "OK")
        same(client("BF.RESERVE", "e", "0.01", "1000", "NONSCALING", "EXPANSION", "0"), "OK")
        error_has(client, "BF.RESERVE a 0.01 1000", "item exists")
        client("SET", "string", "x")
        same(client.error("BF.RESERVE", "string", "0.01", "1000"), WRONG_TYPE)
        same(client("TYPE", "a") != client("TYPE", "string"), True)
        for words, part in (("x 0.01 1000 NONSCALING EXPANSION 2", "Nonscaling filters cannot expand"),
                            ("x 0.01 1000 EXPANSION", "no expansion"), ("x 0.01 1000 EXPANSION x", "bad expansion"),
                            ("x zero 1000", "bad error rate"), ("x 0.01 many", "bad capacity"),
                            ("x 0 1000", "err"), ("x 1 1000", "err"), ("x 7.7 1000", "err"),
                            ("x -0.5 1000", "err"), ("x nan 1000", "err"), ("x inf 1000", "err"),
                            ("x 0.01 0", "capacity"), ("x 0.01 -5", "capacity"),
                            ("x 0.01 18446744073709551616", "capacity"),
                            ("x 0.01 9223372036854775807", "capacity"),
                            ("x 0.01 1000 EXPANSION -1", "expansion"),
                            ("x 0.01 1000 EXPANSION 32769", "expansion")):
            error_has(client, f"BF.RESERVE {words}", part)
        for words in ("", "x", "x 0.01"):
            error_has(client, f"BF.RESERVE {words}", "wrong number of arguments")
        same(client("EXISTS", "x"), 0, "an error creates nothing")


def test_high_rates(context):
    """Any rate below 1 makes a filter, and it never denies what it holds."""
    for client, yes, _ in protocols(context):
        for number, (rate, size) in enumerate((("0.95", 8), ("0.99", 3), ("0.9999999999999999", 100))):
            same(client("BF.RESERVE", f"f{number}", rate, size, "NONSCALING"), "OK")
            client("BF.ADD", f"f{number}", "a")
            same(client("BF.EXISTS", f"f{number}", "a"), yes)


def test_seeds(context):
    """SEED is a number, decimal or hexadecimal, or RANDOM: equal seeds make equal filters."""
    for client, _, _ in protocols(context):
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
            for words in ("SEED", "SEED -1", "SEED +1", "SEED 0x", "SEED abc", f"SEED {2**64}", f"SEED 0x1{'0' * 16}",
                          "SEED 1 SEED 2", "SEED 1 EXPANSION", "SEED EXPANSION"):
                error_has(client, " ".join([f"{kind}.RESERVE", "x", *reserve, words]))
            for seed in (b"", b"1\0", b" 1"):
                client.error(f"{kind}.RESERVE", "x", *reserve, "SEED", seed)
            same(client("EXISTS", "x"), 0)
            if wide:
                same(client(f"{kind}.RESERVE", "w", *reserve, "SEED", "1", wide), "OK")
            client("FLUSHALL")


def test_bf_add_and_exists(context):
    for client, yes, no in protocols(context):
        same(client("BF.ADD", "f", "one"), yes, "creates the filter")
        same(client("BF.ADD", "f", "one"), no)
        same(client("BF.MADD", "f", "one", "two", "two", "three"), [no, yes, no, yes])
        same(client("BF.EXISTS", "f", "one"), yes)
        same(client("BF.EXISTS", "f", "absent"), no)
        same(client("BF.MEXISTS", "f", "one", "absent", "three"), [yes, no, yes])
        same(client("BF.EXISTS", "missing", "one"), no)
        same(client("BF.MEXISTS", "missing", "one", "two"), [no, no])
        same(client("BF.CARD", "f"), 3)
        same(client("BF.CARD", "missing"), 0)
        same(client("EXISTS", "missing"), 0)
        for key in (b"", b"\0\xff\r\n", b"x" * 100000):
            same(client("BF.ADD", "f", key), yes)
            same(client("BF.EXISTS", "f", key), yes)


def test_bf_insert(context):
    for client, yes, no in protocols(context):
        same(client("BF.INSERT", "f", "ITEMS", "a", "b", "a"), [yes, yes, no])
        same(client("BF.INSERT", "g", "CAPACITY", "5000", "ERROR", "0.0001", "EXPANSION", "4", "ITEMS", "a"), [yes])
        same(info(client, "BF.INFO", "g")["Capacity"] >= 5000, True)
        same(client("BF.INSERT", "h", "NONSCALING", "CAPACITY", "4", "ITEMS", "a"), [yes])
        same(client("BF.INSERT", "i", "NONSCALING", "EXPANSION", "4", "CAPACITY", "4", "ITEMS", "a"), [yes])
        same(info(client, "BF.INFO", "i")["Expansion rate"], None, "it does not scale, whatever EXPANSION says")
        same(client("BF.INSERT", "f", "EXPANSION", "4", "NONSCALING", "NOCREATE", "ITEMS", "a"), [no])
        same(client("BF.INSERT", "f", "NOCREATE", "ITEMS", "c"), [yes])
        same(client("bf.insert", "f", "nocreate", "items", "c"), [no])
        error_has(client, "BF.INSERT missing NOCREATE ITEMS a", "not found")
        for words in ("x", "x NOCREATE", "x ITEMS", "x NOCREATE ITEMS", "x NOCREATE CAPACITY", "x ERROR"):
            error_has(client, f"BF.INSERT {words}", "wrong number of arguments")
        for words in ("x CAPACITY many ITEMS a", "x ERROR big ITEMS a", "x EXPANSION big ITEMS a",
                      "x CAPACITY 0 ITEMS a", "x ERROR 0 ITEMS a", "x ERROR 1 ITEMS a",
                      "x UNKNOWN ITEMS a", "x CAPACITY 0.3 ITEMS a"):
            error_has(client, f"BF.INSERT {words}")
        same(client("EXISTS", "x"), 0)


def test_bf_full(context):
    """A filter that does not scale refuses the key past its capacity, and BF.MADD stops there."""
    for client, yes, no in protocols(context):
        client("BF.RESERVE", "f", "1e-6", "3", "NONSCALING")
        same(client("BF.MADD", "f", "a", "b", "c"), [yes, yes, yes])
        error_has(client, "BF.ADD f d", "non scaling filter is full")
        same(client("BF.ADD", "f", "a"), no, "a key that is in")
        reply = client("BF.MADD", "f", "a", "b", "d", "e")
        same(reply[:2], [no, no])
        same(len(reply), 3, "RedisBloom ends the array with the error")
        assert isinstance(reply[2], ReplyError) and "non scaling filter is full" in str(reply[2])
        reply = client("BF.INSERT", "f", "ITEMS", "a", "d")
        assert isinstance(reply[1], ReplyError)
        same(client("BF.MEXISTS", "f", "a", "b", "c", "d"), [yes, yes, yes, no])
        same(client("BF.CARD", "f"), 3)


def test_bf_info(context):
    names = ["Capacity", "Size", "Number of filters", "Number of items inserted", "Expansion rate"]
    for client, yes, _ in protocols(context):
        client("BF.RESERVE", "f", "0.001", "1000")
        client("BF.MADD", "f", "a", "b")
        reply = client("BF.INFO", "f")
        same(isinstance(reply, dict), yes is True, "a map in RESP3")
        figures = info(client, "BF.INFO", "f")
        same(list(figures), names)
        same(figures["Capacity"], 1000)
        same(figures["Number of filters"], 1)
        same(figures["Number of items inserted"], 2)
        same(figures["Expansion rate"], 2)
        assert 1000 * 1.7 < figures["Size"] < 8192, figures
        for name, field in zip(names, ("CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION")):
            for word in (field, field.lower()):
                reply = client("BF.INFO", "f", word)
                reply = list(reply.values()) if isinstance(reply, dict) else reply
                same(reply, [figures[name]], word)
        client("BF.RESERVE", "n", "0.001", "1000", "NONSCALING")
        same(info(client, "BF.INFO", "n")["Expansion rate"], None)
        error_has(client, "BF.INFO missing", "not found")
        error_has(client, "BF.INFO f NONSENSE", "Invalid information value")
        for words in ("", "f CAPACITY SIZE"):
            error_has(client, f"BF.INFO {words}", "wrong number of arguments")


def test_bf_grows(context):
    for client, _, _ in protocols(context):
        client("BF.RESERVE", "f", "0.01", "100")
        client.pipeline([["BF.ADD", "f", i] for i in range(5000)])
        figures = info(client, "BF.INFO", "f")
        assert figures["Capacity"] >= 4900 and figures["Number of filters"] > 1, figures
        same(client("BF.MEXISTS", "f", *range(5000)).count(True if client("BF.EXISTS", "f", 0) is True else 1), 5000)


# ---- cuckoo filters ----


def test_cf_reserve(context):
    for client, _, _ in protocols(context):
        same(client("CF.RESERVE", "a", "1000"), "OK")
        same(client("CF.RESERVE", "b", "1000", "BUCKETSIZE", "4", "MAXITERATIONS", "50", "EXPANSION", "2"), "OK")
        same(client("cf.reserve", "c", "1000", "expansion", "0"), "OK")
        figures = info(client, "CF.INFO", "b")
        same((figures["Bucket size"], figures["Max iterations"], figures["Expansion rate"]), (4, 50, 2))
        error_has(client, "CF.RESERVE a 1000", "item exists")
        client("SET", "string", "x")
        same(client.error("CF.RESERVE", "string", "1000"), WRONG_TYPE)
        for words, part in (("x many", "bad capacity"), ("x 1000 BUCKETSIZE x", "BUCKETSIZE"),
                            ("x 1000 BUCKETSIZE 0", "BUCKETSIZE"), ("x 1000 BUCKETSIZE -1", "BUCKETSIZE"),
                            ("x 1000 MAXITERATIONS x", "MAXITERATIONS"),
                            ("x 1000 MAXITERATIONS 0", "MAXITERATIONS"),
                            ("x 1000 EXPANSION x", "EXPANSION"), ("x 1000 EXPANSION -1", "EXPANSION"),
                            ("x 1", "capacity"), ("x -1", "capacity"), ("x 0", "capacity")):
            error_has(client, f"CF.RESERVE {words}", part)
        for words in ("", "x", "x 1000 BUCKETSIZE", "x 1000 WORD", "x 1000 EXPANSION 2 MAXITERATIONS"):
            error_has(client, f"CF.RESERVE {words}", "wrong number of arguments")
        same(client("EXISTS", "x"), 0)


def test_cf_add_and_remove(context):
    for client, yes, no in protocols(context):
        same(client("CF.ADD", "f", "k"), yes, "creates the filter")
        same(client("CF.ADD", "f", "k"), yes, "a second copy")
        same(client("CF.COUNT", "f", "k"), 2)
        same(client("CF.ADDNX", "f", "k"), no)
        same(client("CF.ADDNX", "f", "l"), yes)
        same(client("CF.EXISTS", "f", "k"), yes)
        same(client("CF.EXISTS", "f", "absent"), no)
        same(client("CF.MEXISTS", "f", "k", "absent", "l"), [yes, no, yes])
        same(client("CF.DEL", "f", "k"), yes)
        same(client("CF.COUNT", "f", "k"), 1)
        same(client("CF.DEL", "f", "k"), yes)
        same(client("CF.DEL", "f", "k"), no)
        same(client("CF.EXISTS", "f", "k"), no)
        same(client("CF.EXISTS", "missing", "k"), no)
        same(client("CF.MEXISTS", "missing", "k", "l"), [no, no])
        same(client("CF.COUNT", "missing", "k"), 0)
        error_has(client, "CF.DEL missing k", "not found")
        same(client("CF.COMPACT", "f"), "OK")
        error_has(client, "CF.COMPACT missing", "not found")
        error_has(client, "CF.COMPACT f g", "wrong number of arguments")


def test_cf_insert(context):
    for client, yes, no in protocols(context):
        same(client("CF.INSERT", "f", "ITEMS", "a", "a", "b"), [yes, yes, yes])
        same(client("CF.COUNT", "f", "a"), 2)
        same(client("CF.INSERTNX", "f", "ITEMS", "a", "c"), [0, 1], "integers in RESP3 too")
        same(client("CF.INSERT", "g", "CAPACITY", "5000", "ITEMS", "a"), [yes])
        same(client("CF.INSERTNX", "h", "CAPACITY", "5000", "ITEMS", "a", "a"), [1, 0])
        same(client("cf.insert", "f", "nocreate", "items", "d"), [yes])
        for name in ("CF.INSERT", "CF.INSERTNX"):
            error_has(client, f"{name} missing NOCREATE ITEMS a", "not found")
            for words in ("x", "x ITEMS", "x NOCREATE ITEMS", "x NOCREATE CAPACITY"):
                error_has(client, f"{name} {words}", "wrong number of arguments")
            for words in ("x CAPACITY many ITEMS a", "x CAPACITY -1 ITEMS a", "x CAPACITY 3 ITEMS a",
                          "x UNKNOWN ITEMS a"):
                error_has(client, f"{name} {words}")
        same(client("EXISTS", "x"), 0)


def test_cf_full(context):
    """EXPANSION 0 does not grow: CF.ADD then gets an error, and CF.INSERT says -1 for the key, or false in
    RESP3 (as CF.INSERTNX has numbers there, it goes on saying -1)."""
    for client, yes, no in protocols(context):
        client("CF.RESERVE", "f", "100", "EXPANSION", "0", "SEED", "1")
        replies = client.pipeline([["CF.ADD", "f", i] for i in range(2000)])
        refused = [i for i, reply in enumerate(replies) if isinstance(reply, ReplyError)]
        assert 100 <= refused[0] and len(refused) > 1000, refused[:1]
        assert "filter is full" in str(replies[refused[0]]).lower(), replies[refused[0]]
        same(client("CF.INSERT", "f", "ITEMS", refused[0], refused[1])[1], no if no is False else -1)
        same(client("CF.INSERTNX", "f", "ITEMS", refused[0], refused[1])[1], -1)
        client("CF.RESERVE", "batch", "100", "EXPANSION", "0", "SEED", "1")
        same(client("CF.INSERT", "batch", "ITEMS", *range(101)), [yes] * 100 + [no if no is False else -1])
        held = [i for i, reply in enumerate(replies) if reply == yes]
        same(client("CF.MEXISTS", "f", *held).count(yes), len(held))


def test_cf_info(context):
    names = ["Size", "Number of buckets", "Number of filters", "Number of items inserted",
             "Number of items deleted", "Bucket size", "Expansion rate", "Max iterations"]
    for client, yes, _ in protocols(context):
        client("CF.RESERVE", "f", "1000")
        client("CF.INSERT", "f", "ITEMS", "a", "b", "c")
        client("CF.DEL", "f", "a")
        same(isinstance(client("CF.INFO", "f"), dict), yes is True)
        figures = info(client, "CF.INFO", "f")
        same(list(figures), names)
        same(figures["Number of items deleted"], 1)
        same(figures["Max iterations"], 20)
        same(figures["Bucket size"], 2)
        same(figures["Expansion rate"], 1)
        assert all(isinstance(value, int) for value in figures.values()), figures
        for size, bucket, expected in ((1000, 2, 512), (10, 2, 8), (9, 2, 4), (64, 1, 64), (10000, 2, 8192)):
            client("CF.RESERVE", f"g{size}", size, "BUCKETSIZE", bucket, "MAXITERATIONS", 30)
            same(info(client, "CF.INFO", f"g{size}")["Number of buckets"], expected)
            same(client("CF.DEBUG", f"g{size}").decode(), f"bktsize:{bucket} buckets:{expected} items:0 deletes:0 "
                 "filters:1 max_iterations:30 expansion:1")
        error_has(client, "CF.INFO missing", "not found")
        for words in ("", "f g"):
            error_has(client, f"CF.INFO {words}", "wrong number of arguments")


def test_copies(context):
    for client, yes, _ in protocols(context):
        client("CF.RESERVE", "f", "1024", "SEED", "1")
        for copies in (1, 2, 3, 4, 10, 100):
            for _ in range(copies):
                client("CF.ADD", "f", f"key {copies}")
            same(client("CF.COUNT", "f", f"key {copies}"), copies)
        for _ in range(100):
            same(client("CF.DEL", "f", "key 100"), yes)
        same(client("CF.COUNT", "f", "key 100"), 0)


# ---- SCANDUMP and LOADCHUNK ----


def test_dump_and_load(context):
    for client, yes, _ in protocols(context):
        for kind, reserve in (("BF", ("0.01", "60", "SEED", "1")), ("CF", ("60", "SEED", "1"))):
            client(f"{kind}.RESERVE", "f", *reserve)
            if kind == "CF":
                same(client("CF.SCANDUMP", "f", "0"), [0, None], "a cuckoo filter without items")
            client.pipeline([[f"{kind}.ADD", "f", i] for i in range(500)])
            pieces = chunks(client, kind, "f")
            same(client(f"{kind}.SCANDUMP", "f", pieces[-1][0]), [0, None if kind == "CF" else b""], "the end")
            for cursor, data in pieces:
                assert isinstance(cursor, int) and isinstance(data, bytes)
                same(client(f"{kind}.LOADCHUNK", "g", cursor, data), "OK")
            absent = [f"absent {i}" for i in range(2000)]
            for words in (range(500), absent):
                same(client(f"{kind}.MEXISTS", "g", *words), client(f"{kind}.MEXISTS", "f", *words))
            same(client(f"{kind}.MEXISTS", "g", *range(500)).count(yes), 500)
            same(chunks(client, kind, "g"), pieces, "the same filter")
            same(client(f"{kind}.LOADCHUNK", "g", *pieces[-1]), "OK", "the last one again, as after a lost reply")
            same(client(f"{kind}.ADD", "g", "more"), yes)
            same(client(f"{kind}.LOADCHUNK", "g", *pieces[-1]), "OK", "also when others have added meanwhile")
            same(client(f"{kind}.EXISTS", "g", "more"), yes)
            assert "it is none of this module's" in client.error(f"{kind}.LOADCHUNK", "new", 77, b"foreign")
            error_has(client, f"{kind}.SCANDUMP missing 0", "not found")
            error_has(client, f"{kind}.SCANDUMP f x")
            for number in (*[-1] * (kind == "BF"), 7, 1 << 20, 5 << 20 | 1, 1 << 40):
                same(client(f"{kind}.SCANDUMP", "f", number), [0, None if kind == "CF" else b""], "no cursor")
            error_has(client, f"{kind}.SCANDUMP f", "wrong number of arguments")
            error_has(client, f"{kind}.LOADCHUNK f 1", "wrong number of arguments")
            for cursor in ("x", "-9223372036854775808", "922337203685477588", "4", "0"):
                client.error(f"{kind}.LOADCHUNK", "f", cursor, b"abcd")
            # What is no chunk gets one error, whatever is at the key.
            client("SET", "string", "x")
            for key in ("f", "missing"):
                for data in (b"", b"x", bytes(5 << 20), pieces[0][1][:-1], b"x" + pieces[0][1][1:]):
                    text = ("ERR received bad data" if kind == "BF" else "ERR item exists" if key == "f"
                            else "ERR Couldn't create filter!")
                    same(client.error(f"{kind}.LOADCHUNK", key, 1, data), text)
            same(client.error(f"{kind}.LOADCHUNK", "string", 1, b"x"), WRONG_TYPE)
            error_has(client, f"{kind}.LOADCHUNK f 1", "wrong number")
            assert "item exists" in client.error(f"{kind}.LOADCHUNK", "f", *pieces[0])
            client("DEL", "f", "g")


def test_words_of_refusals(context):
    """Clients and their tests compare these texts."""
    number = "ERR {}: value must be in the range [{}, {}]"
    for client, _, _ in protocols(context):
        client("BF.ADD", "b", "a")
        client("CF.ADD", "c", "a")
        for words, text in (("BF.RESERVE q abc 100", "ERR bad error rate"), ("BF.RESERVE q 0.01 abc", "ERR bad capacity"),
                            ("BF.RESERVE q 0.01 007", "ERR bad capacity"), ("BF.RESERVE b 0.01 +5", "ERR bad capacity"),
                            ("BF.RESERVE q 0.01 100 EXPANSION x", "ERR bad expansion"),
                            ("BF.RESERVE q 0.01 100 EXPANSION -1", "ERR expansion must be in the range [0, 32768]"),
                            ("BF.RESERVE q 0.01 100 EXPANSION 32769", "ERR expansion must be in the range [0, 32768]"),
                            ("BF.INSERT q WORD ITEMS a", "ERR Unknown argument received"),
                            ("BF.INSERT q CAPACITY x ITEMS a", "ERR Bad capacity"),
                            ("BF.INSERT q ERROR x ITEMS a", "ERR Bad error rate"),
                            ("BF.INSERT q EXPANSION x ITEMS a", "ERR Bad expansion"),
                            ("CF.RESERVE q abc", "ERR Bad capacity"), ("CF.INSERT q CAPACITY abc ITEMS a", "ERR Bad capacity"),
                            ("CF.RESERVE q 100 BUCKETSIZE abc", "ERR Couldn't parse BUCKETSIZE"),
                            ("CF.RESERVE q 100 BUCKETSIZE 256", number.format("BUCKETSIZE", 1, 255)),
                            ("CF.RESERVE q 100 MAXITERATIONS abc", "ERR Couldn't parse MAXITERATIONS"),
                            ("CF.RESERVE q 100 MAXITERATIONS 0", number.format("MAXITERATIONS", 1, 65535)),
                            ("CF.RESERVE q 100 EXPANSION abc", "ERR Couldn't parse EXPANSION"),
                            ("CF.RESERVE q 100 EXPANSION -1", number.format("EXPANSION", 0, 32768)),
                            ("CF.RESERVE q 100 WORD 1", "ERR Unknown argument received"),
                            ("BF.SCANDUMP b x", "ERR Second argument must be numeric"),
                            ("BF.LOADCHUNK b x y", "ERR Second argument must be numeric"),
                            ("CF.SCANDUMP c x", "ERR Invalid position"), ("CF.SCANDUMP c -5", "ERR Invalid position"),
                            ("CF.LOADCHUNK c x y", "ERR Invalid position"), ("CF.LOADCHUNK q 0 y", "ERR Invalid position"),
                            ("CF.LOADCHUNK c 1 y", "ERR item exists"), ("CF.LOADCHUNK c 2 y", "ERR Couldn't load chunk!"),
                            ("CF.LOADCHUNK q 1 y", "ERR Couldn't create filter!")):
            same(client.error(*words.split()), text, words)
        same(client("EXISTS", "q"), 0)


def test_words_overlooked(context):
    """BF.RESERVE overlooks words that are no options, up to three words in all."""
    for client, _, _ in protocols(context):
        for number, words in enumerate(("unused", "a b c", "EXPANSION 4 unused", "unused SEED 5")):
            same(client("BF.RESERVE", f"f{number}", "0.01", "100", *words.split()), "OK", words)
        same(info(client, "BF.INFO", "f2")["Expansion rate"], 4)
        for words in ("a b c d", "NONSCALING a b c"):
            error_has(client, f"BF.RESERVE x 0.01 100 {words}", "wrong number of arguments for 'bf.reserve'")
        same(client("EXISTS", "x"), 0)


# ---- windows ----


def test_windows(context):
    """A window of G periods: an item is found until G periods have ended after it was added, and not for
    ever."""
    for client, yes, no in protocols(context):
        for kind, reserve in (("BF", ("1e-6", "1000")), ("CF", ("1000", "ERROR", "1e-5"))):
            for periods in (1, 2, 4):
                same(client(f"{kind}.RESERVE", "w", *reserve, "WINDOW", periods), "OK")
                same(client(f"{kind}.INSERT", "w", "ITEMS", "a"), [yes])
                seen = 0
                while client(f"{kind}.EXISTS", "w", "a") == yes:
                    same(client("BF.ADD" if kind == "BF" else "CF.ADDNX", "w", "a"), no)
                    same(client(f"{kind}.ADVANCE", "w"), "OK")
                    seen += 1
                    assert seen <= periods + 1, "it is never forgotten"
                assert seen >= periods, (seen, periods)
                same(client(f"{kind}.INSERT", "w", "ITEMS", "a"), [yes])
                client("DEL", "w")
            client(f"{kind}.ADD", "f", "a")
            error_has(client, f"{kind}.ADVANCE f", "no window")
            error_has(client, f"{kind}.ADVANCE missing", "not found")
            error_has(client, f"{kind}.ADVANCE", "wrong number of arguments")
            for words in ("WINDOW 0", "WINDOW 65", "WINDOW x", "EVERY 1000", "RENEWS", "WINDOW"):
                client.error(f"{kind}.RESERVE", "x", *reserve, *words.split())
            client("DEL", "f")


def test_windows_of_copies(context):
    """In a cuckoo filter with a window, copies of an item are counted, removed and forgotten together."""
    for client, yes, no in protocols(context):
        same(client(*"CF.RESERVE w 1000 ERROR 1e-5 WINDOW 2".split()), "OK")
        same(client("CF.INSERT", "w", "ITEMS", "a", "a", "a", "b"), [yes] * 4)
        same(client("CF.ADVANCE", "w", "2"), "OK")
        same([client("CF.COUNT", "w", item) for item in "ab"], [3, 1])
        same(client("CF.ADD", "w", "b"), yes, "b begins anew")
        same([client("CF.DEL", "w", item) for item in "aax"], [yes, yes, no])
        same([client("CF.COUNT", "w", item) for item in "ab"], [1, 2])
        same(client("CF.ADVANCE", "w"), "OK")
        same([client("CF.COUNT", "w", item) for item in "ab"], [0, 2])
        same(client("CF.MEXISTS", "w", "a", "b"), [no, yes])
        same(client("CF.DEL", "w", "a"), no)
        same(client("CF.ADDNX", "w", "a"), yes)
        figures = info(client, "CF.INFO", "w")
        same([figures[name] for name in ("Number of filters", "Number of items inserted", "Number of items deleted")],
             [1, 3, 2])
        same(client("COPY", "w", "copy"), 1)
        same(client("CF.MERGE", "copy", "w"), "OK")
        same([client("CF.COUNT", "copy", item) for item in "ab"], [2, 4])
        for cursor, data in chunks(client, "CF", "copy"):
            same(client("CF.LOADCHUNK", "restored", cursor, data), "OK")
        for counts in ([2, 4], [2, 0], [0, 0]):
            same(client("CF.ADVANCE", "restored"), "OK")
            same([client("CF.COUNT", "restored", item) for item in "ab"], counts, "as old as in the other one")
        client(*"CF.RESERVE still 100 EXPANSION 0 WINDOW 1 SEED 1".split())
        same(client("CF.INSERT", "still", "ITEMS", *range(2000)).count(no if no is False else -1) > 1500, True)
        error_has(client, "CF.ADD still another", "filter is full")
        client("CF.ADVANCE", "still", "2")
        same(client("CF.ADD", "still", "another"), yes, "there is room again")


def test_windows_renew(context):
    """With RENEWS, an add of an item that is in begins its time anew, and makes no copy."""
    for client, yes, no in protocols(context):
        for kind, reserve, add in (("BF", ("1e-6", "1000"), "BF.ADD"),
                                   ("CF", ("1000", "SEED", "1"), "CF.ADDNX")):
            client(f"{kind}.RESERVE", "w", *reserve, "WINDOW", "2", "RENEWS")
            client(f"{kind}.INSERT", "w", "ITEMS", "a", "b")
            for _ in range(5):
                same(client(f"{kind}.ADVANCE", "w"), "OK")
                same(client(add, "w", "a"), no)
            same(client(f"{kind}.MEXISTS", "w", "a", "b"), [yes, no])
            if kind == "CF":
                same(client("CF.COUNT", "w", "a"), 1)
            client("DEL", "w")


# ---- all commands ----


SAMPLES = {  # a call of each command with a key in the place of {}
    "BF.RESERVE": "{} 0.01 100", "BF.ADD": "{} a", "BF.MADD": "{} a", "BF.INSERT": "{} ITEMS a",
    "BF.EXISTS": "{} a", "BF.MEXISTS": "{} a", "BF.CARD": "{}", "BF.INFO": "{}",
    "BF.SCANDUMP": "{} 0", "BF.LOADCHUNK": "{} 1 a", "CF.RESERVE": "{} 100", "CF.ADD": "{} a",
    "CF.ADDNX": "{} a", "CF.INSERT": "{} ITEMS a", "CF.INSERTNX": "{} ITEMS a", "CF.EXISTS": "{} a",
    "CF.MEXISTS": "{} a", "CF.DEL": "{} a", "CF.COUNT": "{} a", "CF.COMPACT": "{}", "CF.INFO": "{}",
    "CF.SCANDUMP": "{} 0", "CF.LOADCHUNK": "{} 1 a", "BF.ADVANCE": "{}", "CF.ADVANCE": "{}",
}
# RedisBloom answers these as for a key that is not there, or with another error.
LENIENT = {"BF.EXISTS": "no", "BF.MEXISTS": "no", "CF.EXISTS": "no", "CF.MEXISTS": "no", "CF.COUNT": "no",
           "CF.DEL": "not found", "CF.COMPACT": "not found"}
READ_ONLY = {"BF.EXISTS", "BF.MEXISTS", "BF.CARD", "BF.INFO", "BF.SCANDUMP", "CF.EXISTS", "CF.MEXISTS",
             "CF.COUNT", "CF.INFO", "CF.SCANDUMP"}


FAST = {"BF.RESERVE", "BF.ADD", "BF.MADD", "BF.INSERT", "BF.EXISTS", "BF.MEXISTS", "BF.CARD", "BF.INFO",
        "CF.RESERVE", "CF.EXISTS", "CF.MEXISTS", "CF.COUNT", "CF.DEL", "CF.COMPACT", "CF.INFO",
        "BF.ADVANCE", "CF.ADVANCE"}
FREES = {"CF.DEL", "CF.COMPACT", "BF.ADVANCE", "CF.ADVANCE"}  # allowed when memory is short


def test_wrong_types(context):
    for client, _, no in protocols(context):
        client("SET", "string", "x")
        client("BF.ADD", "bf", "a")
        client("CF.ADD", "cf", "a")
        for name, words in SAMPLES.items():
            other = "cf" if name.startswith("BF") else "bf"
            for key in ("string", other):
                call = [name, *words.format(key).split()]
                how = LENIENT.get(name)
                if how == "no":
                    reply = client(*call)
                    same(reply[0] if isinstance(reply, list) else reply, 0 if name == "CF.COUNT" else no, call)
                elif how:
                    assert how in client.error(*call).lower(), call
                else:
                    same(client.error(*call), WRONG_TYPE, call)
        same(client("GET", "string"), b"x")


def test_arity(context):
    for client, _, _ in protocols(context):
        for name in SAMPLES:
            for words in ((), ("key",)):
                if len(words) == 1 and SAMPLES[name] == "{}":
                    continue
                text = client.error(name, *words)
                assert "wrong number of arguments" in text, (name, words, text)
                assert f"'{name.lower()}'" in text, text


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


def test_merge_of_layers(context):
    """A Bloom filter gets what others contain, whichever has grown more; several sources; and itself."""
    for client, yes, _ in protocols(context):
        for options in ("", "NONSCALING"):
            for name, size in (("small", 100), ("large", 2000)):
                client(*f"BF.RESERVE {name} 1e-6 {5000 if options else 100} SEED 5 {options}".split())
                client("BF.MADD", name, *(f"{name} {i}" for i in range(size)))
            for to, other in (("small", "large"), ("large", "small")):
                client("COPY", to, "f")
                same(client("BF.MERGE", "f", other), "OK")
                same(client("BF.MERGE", "f", "f", other, to), "OK", "nothing new")
                for name, size in (("small", 100), ("large", 2000)):
                    same(client("BF.MEXISTS", "f", *(f"{name} {i}" for i in range(size))).count(yes), size)
                assert 2060 < client("BF.CARD", "f") < 2140
                assert client("BF.MEXISTS", "f", *range(2000)).count(yes) < 5
                same(client("BF.MADD", "f", *range(100)).count(yes), 100, "goes on")
                client("DEL", "f")
            client("COPY", "small", "several")
            client("DEL", "small")
            client(*f"BF.RESERVE small 1e-6 {5000 if options else 100} SEED 5 {options}".split())
            same(client("BF.MERGE", "small", "several", "large"), "OK")
            for name, size in (("small", 100), ("large", 2000)):
                same(client("BF.MEXISTS", "small", *(f"{name} {i}" for i in range(size))).count(yes), size)
            client("BF.ADD", "other", "of another size")
            before = client("DUMP", "large")
            error_has(client, "BF.MERGE large small other", "do not fit")
            same(client("DUMP", "large"), before, "an error changes nothing")
            if options:
                client(*"BF.RESERVE full 1e-6 5000 SEED 5 NONSCALING".split())
                client("BF.MADD", "full", *range(4990))
                before = client("DUMP", "full")
                error_has(client, "BF.MERGE full large", "more keys")
                same(client("DUMP", "full"), before, "an error changes nothing")
            client("FLUSHALL")


def test_merge(context):
    for client, yes, no in protocols(context):
        for kind, reserve in (("BF", ("0.001", "1000")), ("CF", ("1000",))):
            client(f"{kind}.RESERVE", "a", *reserve)
            client.pipeline([[f"{kind}.ADD", "a", i] for i in range(100)])
            same(client(f"{kind}.MERGE", "b", "a"), "OK", "makes the destination")
            client.pipeline([[f"{kind}.ADD", "b", i] for i in range(100, 200)])
            same(client(f"{kind}.MERGE", "a", "b"), "OK")
            same(client(f"{kind}.MEXISTS", "a", *range(200)).count(yes), 200)
            client(f"{kind}.RESERVE", "c", *reserve)
            client(f"{kind}.ADD", "c", "only in c")
            error_has(client, f"{kind}.MERGE a c")
            same(client(f"{kind}.MEXISTS", "a", *range(200)).count(yes), 200, "an error changes nothing")
            error_has(client, f"{kind}.MERGE a", "wrong number of arguments")
            error_has(client, f"{kind}.MERGE a missing", "not found")
            client("SET", "string", "x")
            same(client.error(f"{kind}.MERGE", "a", "string"), WRONG_TYPE)
            same(client.error(f"{kind}.MERGE", "string", "a"), WRONG_TYPE)
            client("FLUSHALL")


# ---- around the commands ----


def test_transactions_and_scripts(context):
    for client, yes, no in protocols(context):
        client("MULTI")
        client("BF.ADD", "f", "a")
        client("BF.MADD", "f", "a", "b")
        client("CF.ADD", "g", "a")
        client("BF.ADD", "g", "wrong type")
        client("CF.COUNT", "g", "a")
        replies = client("EXEC")
        same(replies[:3], [yes, [no, yes], yes])
        same(str(replies[3]), WRONG_TYPE)
        same(replies[4], 1)
        client("WATCH", "f")
        context.shared("BF.ADD", "f", "from elsewhere")
        client("MULTI")
        client("BF.ADD", "f", "c")
        same(client("EXEC"), None, "the key was changed, so the transaction fails")
        script = "return {redis.call('BF.ADD', KEYS[1], ARGV[1]), redis.call('BF.MEXISTS', KEYS[1], ARGV[1], 'z')}"
        reply = client("EVAL", script, "1", "lua", "x")
        assert reply in ([1, [1, 0]], [1, [1, None]], [True, [True, False]]), reply
        reply = client("EVAL", "return redis.pcall('BF.ADD', KEYS[1], 'x').err", "1", "g")
        assert b"WRONGTYPE" in reply
        reply = client("EVAL_RO", "return redis.call('BF.CARD', KEYS[1])", "1", "lua")
        same(reply, 1)
        error_has(client, "EVAL_RO return(redis.call('BF.ADD',KEYS[1],'y')) 1 lua", "write")


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
    for category, allowed, forbidden in (("bloom", "BF.ADD", "CF.ADD"), ("cuckoo", "CF.ADD", "BF.ADD")):
        try:
            client("ACL", "CAT", category)
        except ReplyError:
            continue  # this server lets modules name no categories
        client("ACL", "SETUSER", "category", "reset", "on", ">pw", "~*", f"+@{category}")
        user = context.shared.connect()
        user("AUTH", "category", "pw")
        same(user(allowed, f"data:{category}", "a"), 1)
        assert "NOPERM" in user.error(forbidden, "data:other", "a")
        assert "NOPERM" in user.error("GET", "data:other")
    client("ACL", "DELUSER", "reader", "writer", "merger", "category")


def test_acl_categories(context):
    """Who may not write may not add, and who may write may; the server's own categories have every command."""
    client = context.server().connect()
    try:
        client("ACL", "CAT", "bloom")
    except ReplyError:
        raise servers.Skip("this server has no categories for commands of modules")
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
    for rules, may_read, may_add in (("+@all -@write", True, False), ("+@read +@write", True, True), ("+@read", True, False),
                                     ("+@all -@read", False, True), ("+@write", False, True)):
        client("ACL", "SETUSER", "someone", "reset", "on", ">pw", "~*", *rules.split(), "+auth")
        user = context.shared.connect()
        user("AUTH", "someone", "pw")
        for words, may in (("BF.EXISTS f a", may_read), ("BF.INFO f", may_read), ("BF.SCANDUMP f 0", may_read),
                           ("BF.ADD f b", may_add), ("CF.ADD c b", may_add), ("CF.DEL c b", may_add)):
            (reply,) = user.pipeline([words])
            same("NOPERM" not in str(reply), may, f"{rules}: {words}")
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


def test_advice(context):
    """Sentences about what to change, for each reason one."""
    for client, _, _ in protocols(context):
        client("BF.RESERVE", "fine", "0.01", "100")
        client("BF.MADD", "fine", *range(60))
        client("BF.MADD", "layers", *range(5000))
        client("BF.RESERVE", "empty", "0.001", "1000000")
        client("BF.RESERVE", "full", "0.01", "100", "NONSCALING")
        client.pipeline([["BF.MADD", "full", *range(150)]])
        client("BF.RESERVE", "nearly", "0.01", "100", "NONSCALING")
        client("BF.MADD", "nearly", *range(96))
        client("CF.RESERVE", "bytes", "1000", "MAXBYTES", "50000")
        client.pipeline([["CF.INSERT", "bytes", "ITEMS", *range(i, i + 1000)] for i in range(0, 60000, 1000)])
        for kind, key, word in (("BF", "fine", "nothing to say"), ("BF", "layers", "layers"), ("BF", "empty", "Less than a tenth"),
                                ("BF", "full", "is full"), ("BF", "nearly", "has room for"), ("CF", "bytes", "MAXBYTES")):
            advice = [text(sentence) for sentence in client(f"{kind}.INFO", key, "ADVICE")]
            assert any(word in sentence for sentence in advice), (key, advice)
            assert all(sentence.endswith(".") for sentence in advice), advice
            same(len(advice), 1, key)
        error_has(client, "BF.INFO missing ADVICE", "not found")
        error_has(client, "CF.INFO bytes SIZE", "wrong number")


def test_time_to_live(context):
    """RESERVE with TTL: the key expires, here and on whoever follows."""
    server = context.start("--notify-keyspace-events", "KEA", "--appendonly", "yes")
    for kind, reserve in (("BF", ("0.01", "100")), ("CF", ("100",))):
        same(server(f"{kind}.RESERVE", "f", *reserve, "TTL", "1000000"), "OK")
        assert 900_000 < server("TTL", "f") <= 10**6
        for ttl in ("0", "-1", "x", str(2**62)):
            assert "TTL" in server.error(f"{kind}.RESERVE", "g", *reserve, "TTL", ttl)
        same(server("EXISTS", "g"), 0)
        assert "wrong number" in server.error(f"{kind}.RESERVE", "g", *reserve, "TTL")
        assert "exists" in server.error(f"{kind}.RESERVE", "f", *reserve, "TTL", "1")
        server("DEBUG", "LOADAOF")
        assert 900_000 < server("TTL", "f") <= 10**6
        listener = server.connect()
        listener("SUBSCRIBE", "__keyspace@0__:h")
        server(f"{kind}.RESERVE", "h", *reserve, "TTL", "1")
        events = [listener.receive()[2].decode() for _ in range(2)]
        assert events[-1] == "expire" and events[-2].endswith(".reserve"), events
        wait_until(lambda: not server("EXISTS", "h"), "it expires")
        server("DEL", "f")


def test_exists_with_key(context):
    """WITHKEY tells a key that does not exist from an item that is not in."""
    for client, yes, no in protocols(context):
        for kind in ("BF", "CF"):
            client(f"{kind}.ADD", f"{kind} f", "a")
            same(client(f"{kind}.EXISTS", f"{kind} f", "a", "WITHKEY"), yes)
            same(client(f"{kind}.EXISTS", f"{kind} f", "b", "withkey"), no)
            same(client(f"{kind}.EXISTS", "missing", "b", "WITHKEY"), None)
            same(client(f"{kind}.EXISTS", "missing", "b"), no)
            error_has(client, f"{kind}.EXISTS missing b KEY", "wrong number")
        client("FLUSHALL")


def test_repeated_options(context):
    """As in RedisBloom: of RESERVE the first one counts, whatever a second one says; of INSERT the last one."""
    client = context.server().connect()
    same(client("CF.RESERVE", "c", "1000", "BUCKETSIZE", "4", "BUCKETSIZE", "2", "EXPANSION", "2", "EXPANSION", "x"), "OK")
    info = client("CF.INFO", "c")
    same([info[info.index(name) + 1] for name in ("Bucket size", "Expansion rate")], [4, 2])
    client("BF.INSERT", "b", "CAPACITY", "500", "CAPACITY", "9000", "EXPANSION", "3", "EXPANSION", "4", "ITEMS", "a")
    same(client("BF.INFO", "b", "CAPACITY") + client("BF.INFO", "b", "EXPANSION"), [9000, 4])
    same(client.error(*"BF.INSERT x CAPACITY 500 CAPACITY y ITEMS a".split()), "ERR Bad capacity")
    assert "wrong number" in client.error("CF.RESERVE", "x", "1000", "BUCKETSIZE", "4", "BUCKETSIZE")


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


if __name__ == "__main__":
    servers.run(globals(), __doc__)
