# SPDX-License-Identifier: MIT
"""Replicas are bit for bit alike where test_random.py does not come: plans of many rates and capacities, windows at
their limit, items with ends of their own, scripts."""
import os
from random import Random

import server as servers
from filters import fill, info
from loopback import Clock
from server import ReplyError, in_step, same, strict


def start_both(context, *options, **named):
    master = context.start(*options)
    replica = context.start("--replicaof", servers.HOST, master.port, **named)
    in_step(master, replica)
    strict(replica)
    return master, replica


def test_another_machine(context):
    """A replica with another libm and other cores plans the same filters, and their growth."""
    master, replica = start_both(context, preload=context.beside("other_machine"))
    fill(master)
    script = "redis.call('BF.ADD', KEYS[1], 'x') return redis.call('BF.MADD', KEYS[1], 'x', 'y')"
    same(master("EVAL", script, "1", "by a script"), [0, 1])
    assert b"WRONGTYPE" in master("EVAL", "return redis.pcall('BF.ADD', KEYS[1], 'x').err", "1", "cuckoo")
    assert "write" in master.error("EVAL_RO", "return redis.call('BF.ADD', KEYS[1], 'x')", "1", "bloom").lower()
    assert "READONLY" in replica.error("BF.ADD", "bloom", "b")
    for i, rate in enumerate(("0.3", "0.02", "0.003", "1e-4", "1e-7", "1e-12")):
        for capacity in (7, 100, 12345, 400000):
            for options in ("", "NONSCALING", "WINDOW 3")[: 2 if float(rate) < 1e-6 else 3]:
                master("BF.RESERVE", f"{rate} {capacity} {options}", rate, capacity, *options.split())
            master("CF.RESERVE", f"cuckoo {rate} {capacity}", capacity, "ERROR", max(float(rate), 1e-7), "EXPANSION", i % 2)
    in_step(master, replica)
    keys = master("KEYS", "*")
    assert len(keys) > 90
    for key in keys:
        assert master("DUMP", key) == replica("DUMP", key), f"{key}: not bit for bit alike"


def test_windows_at_the_limit(context):
    """A window that meets its limit refuses adds, and a replica has what its master has."""
    master, replica = start_both(context)
    for number, (expansion, extra) in enumerate(((1, ()), (1, ("RENEWS", )), (0, ()))):
        name, random = f"w{number}", Random(number)
        master("CF.RESERVE", name, "1000", "MAXBYTES", "30000", "EXPANSION", expansion, "WINDOW", "3", *extra)
        refused = 0
        for _ in range(20):
            words = [random.choice(("CF.ADD", "CF.ADD", "CF.ADDNX")) for _ in range(2000)]
            replies = master.client.pipeline([[word, name, random.randrange(20000)] for word in words])
            refused += sum(isinstance(reply, ReplyError) for reply in replies)
            master.client.pipeline([["CF.DEL", name, item] for item in range(200)])
            master("CF.ADVANCE", name)
        assert refused, "the limit is met"
        in_step(master, replica)
        same(master("DUMP", name) == replica("DUMP", name), True, "bit for bit alike")


def inserted(server, name):
    return info(server, "CF.INFO", name)["Number of items inserted"]


def test_unions_at_the_limit(context):
    """A union that the limit has allowed the master is also made on a replica, and when an AOF is read, though memory
    may come back later there."""
    master, replica = start_both(context, "--appendonly", "yes", "--appendfsync", "no", "--aof-use-rdb-preamble", "no")
    random, refused, united = Random(1), 0, 0
    for number in range(4):
        held = {f"{number} {i}": set() for i in range(4)}
        for name in held:
            master("CF.RESERVE", name, "300", "SEED", "5", "MAXBYTES", random.choice((30000, 60000)))
        for _ in range(40):
            name, other = random.sample(list(held), 2)
            items = [random.randrange(10**6) for _ in range(random.choice((10, 100, 1000)))]
            replies = master("CF.INSERT", name, "ITEMS", *items)
            held[name].update(item for item, reply in zip(items, replies) if reply == 1)
            if master.client.pipeline([["CF.MERGE", name, other]]) == ["OK"]:
                held[name] |= held[other]
                united += 1
            refused += -1 in replies
        counts = [inserted(master, name) for name in held]
        in_step(master, replica)
        same(master("DEBUG", "LOADAOF"), "OK")
        for server in (master, replica):
            same([inserted(server, name) for name in held], counts)
            for name, items in held.items():
                same(set(server("CF.MEXISTS", name, *items)), {1}, name)
        master("FLUSHALL")
    assert refused and united, (refused, united)


def test_items_that_end(context):
    """An item of some seconds is in for these, and until the period ends that then runs: also on a replica, and when
    the server has read all again.  The clock of a filter begins with it."""
    clock = Clock(servers.temporary_folder())
    os.environ.update(clock.environment)
    preload, begin = context.beside("set_clock"), clock.now
    master = context.start("--appendonly", "yes", preload=preload)
    replica = context.start("--replicaof", servers.HOST, master.port, preload=preload)
    strict(replica)
    commands = {"b": "BF.MADDEX b {} {}", "i": "BF.INSERT i EX {} ITEMS {}", "c": "CF.INSERT c EX {} ITEMS {} {}",
                "n": "CF.INSERTNX n PERIODS 0 EX {} ITEMS {}"}
    for key, command in commands.items():
        master(f"{command[0]}F.RESERVE", key, *["1e-6"] * (command[0] == "B"), "1000", "WINDOW", "9", "EVERY", "1000",
               *["RENEWS"] * (key in "in"))
    ends = {}
    for late in (0, 1, 500, 999):
        clock.set(begin + late)
        for key, command in commands.items():
            for seconds in range(1, 10):
                item = f"{seconds}_{late}"
                master(*command.format(seconds, item, item).split())
                ends[item] = begin + (late + seconds * 1000 + 999) // 1000 * 1000
            assert "shorter" in master.error(*command.format(10, "longer", "longer").split())
            master(f"{command[0]}F.INSERT", key, "PERIODS", "0", "ITEMS", "period", "renewed")
            if key in "in":
                master(f"{command[0]}F.INSERT{'NX' * (key == 'n')}", key, "EX", "3", "ITEMS", "renewed")
    for now in sorted({end + step for end in ends.values() for step in (-1, 0)}):
        clock.set(now)
        for key, command in commands.items():
            master(f"{command[0]}F.ADD{'NX' * (key == 'n')}", key, "another")  # the clock is looked at
        in_step(master, replica)
        for key, command in commands.items():
            assert master("DUMP", key) == replica("DUMP", key), f"{key}: not bit for bit alike"
            expected = [int(now < end) for end in ends.values()]
            last = [int(now < begin + 1000), int(now < begin + (4000 if key in "in" else 1000)), 0]
            for server in (master, replica):
                same(server(f"{command[0]}F.MEXISTS", key, *ends, "period", "renewed", "longer"), expected + last, (key, now - begin))
        if now == begin + 3000:
            dumps = [master("DUMP", key) for key in commands]
            same(master("DEBUG", "LOADAOF"), "OK")
            same([master("DUMP", key) for key in commands], dumps)
            master.rewrite()
            same(master("DEBUG", "LOADAOF"), "OK")
            same([master("DUMP", key) for key in commands], dumps)
