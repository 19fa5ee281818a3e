# SPDX-License-Identifier: MIT
"""Memory and limits: what filters take counts in used_memory and falls back, nothing that a client asks
for takes the server down, rates hold when filters grow a thousandfold, and copies cost nothing.
"""
import pathlib
import random
import sys

import pytest
import server as servers
from filters import ask, chunks, info, insert, load
from server import ReplyError, same, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import small

MILLION = 1_000_000


def used(server):
    return server.client.info("memory", "used_memory")


def test_memory_is_counted(context):
    """SIZE is what the server's allocator has handed out, to the byte, and MEMORY USAGE adds the key."""
    server = context.start()
    for words in (("BF.RESERVE", "f", "0.01", "100"), ("BF.RESERVE", "f", "0.01", "N", "NONSCALING"),
                  ("BF.RESERVE", "f", "0.01", "100", "WINDOW", "3"), ("CF.RESERVE", "f", "100"),
                  ("CF.RESERVE", "f", "N"), ("CF.RESERVE", "f", "N", "EXPANSION", "0"), ("CF.RESERVE", "f", "100", "WINDOW", "3")):
        kind = words[0][:2]
        for n in (1000, 10000, 100_000, MILLION):
            server(*[n if word == "N" else word for word in words])
            insert(server, kind, "f", range(0, n, max(2, n // 50000)))
            wait_until(lambda: info_size(server, kind, "f") == server.client.info("tamis", "tamis_bytes"),
                       f"{words} of {n} items has {info_size(server, kind, 'f')} bytes by the allocator")
            server("DEL", "f")
    for kind, reserve in (("BF", ("0.001", "4000000")), ("CF", ("4000000", "EXPANSION", "0"))):
        wait_until(lambda: server.client.info("tamis", "tamis_bytes") == 0, "all that was freed is back")
        before = used(server)
        server(f"{kind}.RESERVE", "f", *reserve)
        insert(server, kind, "f", range(20000))
        usage, size = server("MEMORY", "USAGE", "f"), info_size(server, kind, "f")
        grown = used(server) - before
        assert 4 << 20 < usage < 16 << 20, usage
        assert abs(usage - size) < 1024, (usage, size)
        assert 0.98 * usage < grown < 1.02 * usage + 100_000, (usage, grown)
        for free in (("DEL", "f"), ("UNLINK", "f"), ("FLUSHALL", "SYNC"), ("FLUSHALL", "ASYNC")):
            if not server("EXISTS", "f"):
                server(f"{kind}.RESERVE", "f", *reserve)
                insert(server, kind, "f", range(2000))
            server(*free)
            wait_until(lambda: used(server) < before + 300_000, f"{kind}: {free} gives the memory back")


def info_size(server, kind, key):
    return info(server, f"{kind}.INFO", key)["Size"]


def test_small_filters(server):
    """What small filters take, in multiples of what RedisBloom takes for them: docs/use/redis.md has the table."""
    most = {(100, True): (1.7, 1.58, 1.46, 1.37), (100, False): (1.92, 1.74, 1.46, 1.37),
            (1000, True): (1.15, 1.23, 1.01, 1.2), (1000, False): (1.17, 1.01, 1.01, 1.2),
            (10000, True): (1.01, 1.01, 1.01, 1.01), (10000, False): (1.17, 1.01, 1.01, 1.01)}
    for (items, grows), ratios in most.items():
        for rate, ratio in zip((0.01, 0.001, 1e-6, 1e-8), ratios):
            usage, other = small.measure(server, items, rate, grows)
            assert usage <= ratio * other, (items, rate, grows, usage, other)


def test_freed_in_background(server):
    """UNLINK and FLUSHALL ASYNC of a large filter leave the work to another thread."""
    for command in (("UNLINK", "f"), ("FLUSHALL", "ASYNC")):
        server("CF.RESERVE", "f", "3000000")
        insert(server, "CF", "f", range(20000))
        before = server.client.info("memory", "lazyfreed_objects")
        server(*command)
        wait_until(lambda: server.client.info("memory", "lazyfreed_objects") > before or
                   server.client.info("memory", "lazyfree_pending_objects") > 0, f"{command} is lazy")


def test_growth_keeps_the_rate(server):
    """10^6 keys through a filter that was reserved for 1,000."""
    server("BF.RESERVE", "bloom", "0.01", "1000")
    server("CF.RESERVE", "cuckoo", "1000")
    for kind, key, rate in (("BF", "bloom", 0.01), ("CF", "cuckoo", None)):
        insert(server, kind, key, range(MILLION))
        same(set(ask(server, kind, key, range(0, MILLION, 20))), {1}, "no false negative")
        wrong = sum(ask(server, kind, key, [f"absent {i}" for i in range(100_000)]))
        size = server("MEMORY", "USAGE", key)
        print(f"# {key}: {wrong / 1000:.3f} % wrong, {size * 8 / MILLION:.1f} bits per key")
        # RedisBloom's default for cuckoo filters is a fingerprint of 8 bits in buckets of 2.
        limit = rate or 4 / 255
        assert wrong <= limit * 100_000 + 5 * (limit * 100_000) ** 0.5, wrong
        assert size < MILLION * 5, size


def test_a_million_copies(server):
    """Copies of one key take no more room than a few, and one add never costs a server its memory."""
    for expansion in ("1", "2", "4"):
        server("CF.RESERVE", "f", "1000", "EXPANSION", expansion, "ERROR", "1e-6")
        insert(server, "CF", "f", ["before"])
        size = server("MEMORY", "USAGE", "f")
        total = MILLION if expansion == "2" else 10_000
        for _ in range(total // 10_000):
            server("CF.INSERT", "f", "ITEMS", *["one"] * 10_000)
        same(server("CF.COUNT", "f", "one"), total)
        assert server("MEMORY", "USAGE", "f") <= size + 4096, (size, server("MEMORY", "USAGE", "f"))
        same(server("CF.ADD", "f", "two"), 1, "it takes other keys")
        same(server("CF.MEXISTS", "f", "before", "one", "two", "absent"), [1, 1, 1, 0])
        for _ in range(10):
            same(server("CF.DEL", "f", "one"), 1)
        same(server("CF.COUNT", "f", "one"), total - 10)
        server("DEL", "f")
    server("BF.RESERVE", "b", "0.01", "100", "NONSCALING")
    for _ in range(100):
        server("BF.MADD", "b", *["one"] * 10_000)
    same(server("BF.CARD", "b"), 1)


def test_what_is_too_large(server):
    """Sizes that no machine has: an error at once, which names the limit.  What is close to it takes no memory before keys
    come."""
    most = "ERR (capacity should be at most 1099511627776, which is 2^40)"
    for call, error in (("BF.RESERVE f 0.01 1000000000000", "tamis.max-bytes is 536870912"),
                        ("BF.RESERVE f 0.000000001 9000000000", "fpp"), ("BF.RESERVE f 1e-300 100", "fpp"),
                        ("CF.RESERVE f 1000000000000", "tamis.max-bytes is"), (f"BF.RESERVE f 0.01 {2**63 - 1}", most),
                        (f"CF.RESERVE f {2**63 - 1}", most), ("CF.RESERVE f 100000000000 EXPANSION 32768", "tamis.max-bytes is"),
                        (f"BF.INSERT f CAPACITY {2**63 - 1} ITEMS a", most), (f"CF.INSERT f CAPACITY {2**40 + 1} ITEMS a", most),
                        ("CF.INSERTNX f CAPACITY 1000000000000 ITEMS a", "tamis.max-bytes is"),
                        ("CF.RESERVE f 10000000 MAXBYTES 100000", "MAXBYTES is 100000")):
        text = server.error(*call.split())
        assert error in text and "max_bytes" not in text, (call, text)
    before = used(server)
    for reserve in ("CF.RESERVE f 1000 EXPANSION 32768 BUCKETSIZE 255 MAXITERATIONS 65535", "BF.RESERVE f 0.01 10 EXPANSION 32768"):
        server(*reserve.split())
        insert(server, reserve[:2], "f", range(20000 if reserve[0] == "C" else 1000))
        assert server("MEMORY", "USAGE", "f") < 1 << 20, server("MEMORY", "USAGE", "f")
        server("DEL", "f")
    wait_until(lambda: used(server) < before + (1 << 20), "the memory is given back")


def test_growth_is_foretold(server):
    """A filter grows as far as BF.INFO and VALIDATESCALETO say, or once more where its bytes are scarce."""
    draw = random.Random(5)
    exact = trials = 0
    while trials < 40:
        rate, capacity, most = 10 ** draw.uniform(-9, -0.1), int(10 ** draw.uniform(0, 3.5)), int(10 ** draw.uniform(2.6, 5.3))
        options = ["CAPACITY", capacity, "ERROR", rate, "MAXBYTES", most]
        if isinstance(server.client.pipeline([["BF.INSERT", trials, *options]])[0], ReplyError):
            continue
        told = server("BF.INFO", trials, "MAXSCALEDCAPACITY")
        same(server("BF.INSERT", trials, *options, "VALIDATESCALETO", told), [])
        assert "exceed memory limit" in server.error("BF.INSERT", trials, *options, "VALIDATESCALETO", told + 1)
        for start in range(0, 1 << 22, 5000):
            if isinstance(server("BF.MADD", trials, *range(start, start + 5000))[-1], ReplyError):
                break
        (reached,) = server("BF.INFO", trials, "CAPACITY")
        assert reached in (told, 2 * told), (options, told, reached)
        exact, trials = exact + (reached == told), trials + 1
    assert exact > 30, exact


def test_most_bytes(context):
    """The limit of one filter: what is larger is not created, and what reaches it goes on without more keys."""
    server = context.start(arguments=("max-bytes", "1mb"))
    same(server("CONFIG", "GET", "tamis.max-bytes"), [b"tamis.max-bytes", b"1048576"])
    for call in ("BF.RESERVE f 0.01 10000000", "CF.RESERVE f 10000000", "BF.INSERT f CAPACITY 10000000 ITEMS a",
                 "CF.INSERT f CAPACITY 10000000 ITEMS a"):
        assert "could not create filter" in server.error(*call.split()), call
    same(server("EXISTS", "f"), 0)
    for kind in ("BF", "CF"):
        key = f"{kind} limited"
        replies = []
        while not any(isinstance(reply, ReplyError) for reply in replies[-5000:]):
            numbers = range(len(replies), len(replies) + 5000)
            replies += server.client.pipeline([[f"{kind}.ADD", key, i] for i in numbers])
            assert len(replies) < 2_000_000, "no limit"
        errors = [i for i, reply in enumerate(replies) if isinstance(reply, ReplyError)]
        assert errors[0] > 100_000, errors[:1]
        assert "full" in str(replies[errors[0]]), replies[errors[0]]
        # The limit holds for what is asked for; blocks of the allocator's are up to a quarter larger.
        assert server("MEMORY", "USAGE", key) <= (5 << 18) + 4096
        same(set(ask(server, kind, key, range(0, errors[0], 97))), {1})
    # A filter from a server with a higher limit.
    large = context.start()
    large("BF.RESERVE", "f", "0.01", "2000000")
    payload = large("DUMP", "f")
    server.error("RESTORE", "f", "0", payload)
    server("CONFIG", "SET", "tamis.max-bytes", "0")
    same(server("RESTORE", "f", "0", payload), "OK")
    # A limit that is set later is no reason to lose what there is.
    server("CONFIG", "SET", "tamis.max-bytes", "1000000")
    server("SAVE")
    server.kill()
    server.start()
    same(server("BF.ADD", "f", "a"), 1)


def test_settings(context):
    server = context.start(arguments=("bf-initial-size", "5000", "bf-error-rate", "0.001", "cf-initial-size", "3000",
                                      "cf-expansion-factor", "2", "ERROR_RATE", "0.002"))
    server("BF.ADD", "b", "a")
    server("CF.ADD", "c", "a")
    same(server("BF.INFO", "b", "CAPACITY"), [5000])
    reply = server("CF.INFO", "c")
    same(reply[reply.index("Expansion rate" if "Expansion rate" in reply else b"Expansion rate") + 1], 2)
    same(server("CONFIG", "GET", "tamis.bf-error-rate"), [b"tamis.bf-error-rate", b"0.002"])
    server("CONFIG", "SET", "tamis.bf-initial-size", "700")
    server("BF.ADD", "d", "a")
    same(server("BF.INFO", "d", "CAPACITY"), [700])
    for name, value in (("bf-initial-size", "0"), ("bf-error-rate", "1"), ("bf-error-rate", "many"),
                        ("max-bytes", "-1"), ("cf-bucket-size", "256")):
        server.error("CONFIG", "SET", f"tamis.{name}", value)
    before = server("CONFIG", "GET", "tamis.*")
    for setting in ("bf-initial-size 1099511627777", "bf-initial-size 1000000000", "bf-error-rate 1e-300",
                    "cf-error-rate 1e-300", "cf-initial-size 1000000000", "cf-bucket-size 10 tamis.cf-initial-size 19",
                    "cf-initial-size 3 tamis.bf-initial-size 200", "max-bytes 100", "bf-expansion-factor 32769"):
        assert "CONFIG SET failed" in server.error(*f"CONFIG SET tamis.{setting}".split()), setting
        for kind, key in (("BF", "e"), ("CF", "g")):
            same(server(f"{kind}.ADD", key, "a"), 1, setting)
            server("DEL", key)
    same(server("CONFIG", "GET", "tamis.*"), before)
    same(server(*"CONFIG SET tamis.cf-initial-size 19 tamis.cf-bucket-size 9".split()), "OK")
    same(server("CF.ADD", "g", "a"), 1)
    for arguments in (("bf-error-rate", "2"), ("bf-initial-size",), ("unknown", "1"), ("bloom-use-random-seed", "no"), ("max-bytes", "-5"),
                      ("max-bytes", "100"), ("cf-bucket-size", "255", "cf-initial-size", "509")):
        with pytest.raises(RuntimeError, match="argument"):
            context.start(arguments=arguments)
    server = servers.Server(context.kind, "", "--enable-module-command", "yes")
    context.started.append(server)
    server.error("MODULE", "LOAD", context.module, "bf-error-rate", "0.5", "unknown", "1")
    same(server("MODULE", "LOAD", context.module), "OK")
    same(server("CONFIG", "GET", "tamis.bf-error-rate")[1], b"0.01", "a load that was refused leaves nothing")


def test_settings_of_valkey_bloom(context):
    server = context.start(arguments=("bloom-capacity", "300", "bloom-expansion", "4", "bloom-fp-rate", "0.02"))
    for name, value in (("bf-initial-size", b"300"), ("bf-expansion-factor", b"4"), ("bf-error-rate", b"0.02")):
        same(server("CONFIG", "GET", f"tamis.{name}")[1], value)


def page_faults(server):
    """How often the server has touched a page of memory that was not there."""
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
        return int(file.read().rsplit(")", 1)[1].split()[7])


def test_large_filters_are_freed_by_use(context):
    """DEL and FLUSHALL of a filter for 10^12 items with a thousand in touch what these have used."""
    server = context.start(arguments=("max-bytes", "0"))
    for kind, *reserve in (("CF", 10**12), ("CF", 10**11, "EXPANSION", "0"), ("BF", "0.01", 10**11),
                           ("BF", "0.01", 10**10, "WINDOW", "3"), ("CF", 10**10, "WINDOW", "3")):
        for free in (("DEL", "f"), ("FLUSHALL", "SYNC"), ("UNLINK", "f")):
            (reply,) = server.client.pipeline([[f"{kind}.RESERVE", "f", *reserve]])
            if isinstance(reply, ReplyError):
                assert "memory" in str(reply), reply  # a machine that promises no more than it has
                continue
            insert(server, kind, "f", range(1000))
            before = page_faults(server)
            server(*free)
            assert page_faults(server) - before < 20000, (kind, reserve, free, page_faults(server) - before)


def test_ranges_hold_without_a_limit(context):
    """Capacities up to 2^40, whatever max-bytes says."""
    server = context.start(arguments=("max-bytes", "0"))
    for capacity in (2**40 + 1, 9 * 10**12, 2**62):
        for words in (("BF.RESERVE", "f", "0.01", capacity), ("CF.RESERVE", "f", capacity)):
            same(server.error(*words), "ERR (capacity should be at most 1099511627776, which is 2^40)", words)


def test_settings_are_rewritten(context):
    """CONFIG REWRITE keeps what was set, and a module with data is not unloaded."""
    server = servers.Server(context.kind, "", "--enable-module-command", "yes", start=False)
    context.started.append(server)
    (server.folder / "server.conf").touch()
    server.config = "server.conf"
    server.start()
    server("MODULE", "LOAD", context.module)
    server("CONFIG", "SET", "tamis.max-bytes", "3000000", "tamis.cf-error-rate", "0.0001", "tamis.bf-initial-size",
           "4000000", "tamis.bf-error-rate", "0.1")  # possible together only
    server("BF.ADD", "f", "a")
    server("CONFIG", "REWRITE")
    server.error("MODULE", "UNLOAD", "tamis")
    server("SAVE")
    server.kill()
    server.start()
    same(server("CONFIG", "GET", "tamis.max-bytes")[1], b"3000000")
    same(server("CONFIG", "GET", "tamis.cf-error-rate")[1], b"0.0001")
    same(server("BF.EXISTS", "f", "a"), 1)


def test_maxmemory(context):
    """Adds are refused when the server's memory is at its limit; look-ups and removes are not."""
    server = context.start()
    server("CF.INSERT", "f", "ITEMS", *range(1000))
    server("CONFIG", "SET", "maxmemory", "1")
    for call in ("BF.ADD b a", "BF.MADD b a", "BF.INSERT b ITEMS a", "BF.RESERVE b 0.01 100", "CF.ADD f x",
                 "CF.ADDNX f x", "CF.INSERT f ITEMS x", "CF.RESERVE c 100"):
        assert server.error(*call.split()).startswith("OOM"), call
    same(server("CF.EXISTS", "f", "1"), 1)
    same(server("CF.DEL", "f", "1"), 1)
    server("CONFIG", "SET", "maxmemory", "0")
    same(server("CF.ADD", "f", "x"), 1)


def test_eviction(context):
    """Filters are evicted as other keys are, by the memory that they take."""
    # Freed in the background, as Valkey does by default, they would count until they are, and an add might
    # find no memory meanwhile.
    server = context.start("--maxmemory", "20mb", "--maxmemory-policy", "allkeys-lru",
                           "--lazyfree-lazy-eviction", "no")
    for i in range(40):
        server("BF.RESERVE", f"f{i}", "0.01", "1000000")
        insert(server, "BF", f"f{i}", range(1000))
    wait_until(lambda: server.client.info("stats", "evicted_keys") > 20, "filters are evicted")
    wait_until(lambda: used(server) < 24 << 20, "the memory is given back")


def test_dumps_take_no_memory(context):
    """A reader's dump evicts nothing, and takes no more of a filter that is reserved for 10^12 items."""
    server = context.start(arguments=("max-bytes", "0"))
    server("BF.RESERVE", "small", "0.01", 40 * MILLION)
    server("CF.RESERVE", "cuckoo", 20 * MILLION, "EXPANSION", "0")
    for kind, key in (("BF", "small"), ("CF", "cuckoo")):
        server(f"{kind}.ADD", key, "x")
        server.client.pipeline([["SET", f"{key} {i}", bytes(250_000)] for i in range(50)])
    server("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", used(server) + 5 * MILLION)
    keys = server("DBSIZE")
    for kind, key in (("BF", "small"), ("CF", "cuckoo")):
        pieces = chunks(server, kind, key)
        assert len(pieces) < 8 and sum(len(data) for _, data in pieces) < 100_000, key
        server("SET", "next", "x")
        server("DEL", "next")
    same(server("DBSIZE"), keys)
    server("CONFIG", "SET", "maxmemory", "0")
    load(server, "BF", "copy", chunks(server, "BF", "small"))
    same(server("BF.EXISTS", "copy", "x"), 1)
    (reply,) = server.client.pipeline([["BF.RESERVE", "large", "0.01", 10**12]])
    if not isinstance(reply, ReplyError):  # a machine that promises no more than it has
        before, faults, cursor = used(server), page_faults(server), 0
        for _ in range(3):
            cursor, data = server("BF.SCANDUMP", "large", cursor)
            assert len(data) < 10_000 and used(server) < before + 20 * MILLION, (len(data), used(server) - before)
        assert page_faults(server) - faults < 100_000


def test_merge_in_place(context):
    """The union of a Bloom filter with one other takes no memory."""
    server = context.start()
    for key in "ab":
        server("BF.RESERVE", key, "0.001", "4000000", "SEED", "1")
        server("BF.MADD", key, *(f"{key}{i}" for i in range(1000)))
    before = server.client.info("memory", "used_memory_peak")
    same(server("BF.MERGE", "a", "b"), "OK")
    assert server.client.info("memory", "used_memory_peak") < before + (2 << 20)
    same(server("BF.MEXISTS", "a", *(f"b{i}" for i in range(1000))).count(1), 1000)
