#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Consumers in several processes drop duplicate messages with BF.ADD in a cluster of three masters and
three replicas.  Slots move meanwhile, and a master is killed by -9.  All that was said to be done is
compared with an exact set.

Each message is delivered to several consumers.  The one whose BF.ADD says 1 handles it, and the add is
acknowledged when WAIT 1 says that a replica has it, too.  Until then the consumer sends it again.  An
add whose connection broke may have been carried out or not, so a 0 that follows it says nothing: the
consumer handles such a message.

    failover.py --server redis|valkey --module PATH [--seconds N] [--consumers N]
"""
import argparse
import array
import collections
import multiprocessing
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
import server as servers  # noqa: E402
from cluster import NODE_TIMEOUT_MS, Cluster, ClusterClient, slot_of  # noqa: E402
from loopback import SKIPPED, supervised  # noqa: E402
from server import ReplyError  # noqa: E402

SHARDS = 48
RATE = 1e-4
CAPACITY = 2000  # of each shard's filter; they grow
BATCH = 200
BLOCK = 4000
REPLICAS = 1
FAILOVER_MS = 5000  # the timeout of nodes while a replica is to take over


LEGEND = """
delivered        each message comes to several consumers; one of them is to handle it
slots            parts of the key space, which the cluster moves from one master to another, with their filters
MOVED / ASK      the server's word that a slot has gone, or is going, to another one: the consumer asks that one
longest wait     until a batch was acknowledged; a consumer waits while its master is dead and the replica takes over
broken           the add was carried out or not, nobody knows: it is sent again, and its message is handled
sent again       those, adds that a server refused for the moment, and adds that no replica had in time
acknowledged     a replica has the add, too (WAIT 1): it outlives its master
handled twice    the price of not losing a message: only messages whose first add was broken or sent again
wrongly dropped  messages that nobody handled, as a false positive hid them"""


def shard(message):
    return f"seen:{{{message * 2654435761 % 4294967296 % SHARDS}}}"


def deliveries(consumer, consumers, block):
    """The messages of a block that this consumer gets, in its own order."""
    mine = [message for message in range(block * BLOCK, (block + 1) * BLOCK)
            if consumer in (message % consumers, message // consumers % consumers)]
    random.Random(consumer * 1000003 + block).shuffle(mine)
    return mine


# ---- a consumer, which is a process of its own ----


class Consumer:
    def __init__(self, number, consumers, ports):
        self.number, self.consumers = number, consumers
        self.client = ClusterClient(ports)
        self.handled = array.array("Q")  # messages, once for each time
        self.acknowledged = array.array("Q")
        self.dropped = self.read = self.retried = self.unsure = 0
        self.stall = 0.0

    def take(self, messages):
        """Handles each message, or drops it as a duplicate.  Returns when all adds are acknowledged."""
        self.read += len(messages)
        waiting = [(message, False) for message in messages]  # and whether an earlier try may have added it
        begin = time.monotonic()
        while waiting:
            results = self.client.batch([("BF.ADD", shard(message), message) for message, _ in waiting], REPLICAS)
            again = []
            for (message, maybe), (reply, acknowledged) in zip(waiting, results):
                if isinstance(reply, ReplyError) and not self.client.passing(reply):
                    raise reply
                if isinstance(reply, (ReplyError, ConnectionRefusedError)):  # it was not carried out
                    again.append((message, maybe))
                elif isinstance(reply, OSError):
                    self.unsure += 1
                    again.append((message, True))
                elif reply == 0 and not maybe:
                    self.dropped += 1
                elif acknowledged:
                    self.handled.append(message)
                    self.acknowledged.append(message)
                else:
                    again.append((message, True))
            if again:
                self.retried += len(again)
                time.sleep(0.02)
            waiting = again
        self.stall = max(self.stall, time.monotonic() - begin)

    def run(self, ends):
        """Consumes until the end.  Returns what it handled, what was acknowledged, and figures."""
        block = 0
        while not ends.is_set():
            mine = deliveries(self.number, self.consumers, block)
            for start in range(0, len(mine), BATCH):
                self.take(mine[start : start + BATCH])
            block += 1
        # What was handled at any time is delivered once more: all of it must be dropped.
        again = random.Random(self.number).sample(self.acknowledged, min(4000, len(self.acknowledged)))
        repeated = 0
        for start in range(0, len(again), BATCH):
            adds = [("BF.ADD", shard(message), message) for message in again[start : start + BATCH]]
            for add, (reply, _) in zip(adds, self.client.batch(adds)):
                if self.client.passing(reply):  # nobody knows what it said, or it was not carried out
                    reply = 1 - self.client("BF.EXISTS", *add[1:])
                repeated += reply != 0
        figures = {name: getattr(self, name) for name in ("read", "dropped", "retried", "unsure", "stall")}
        figures.update(blocks=block, redelivered=len(again), repeated=repeated, moved=self.client.moved,
                       asked=self.client.asked, broken=self.client.broken)
        return self.handled, self.acknowledged, figures


def consume(number, consumers, ports, ends, results):
    results.put((number, *Consumer(number, consumers, ports).run(ends)))


# ---- what happens to the cluster meanwhile ----


def disturb(cluster, seconds):
    """Moves slots between two masters, and kills the third one.  Its replica takes over; later it is
    started again, as a replica.  Returns figures."""
    a, b, victim = cluster.masters
    replica = cluster.replicas[2]
    slots = sorted({slot_of(f"seen:{{{i}}}") for i in range(SHARDS)})
    begin = time.monotonic()
    movable = [slot for slot in slots if cluster.owner(slot) not in (victim, replica)]
    kill_at, moved_slots, moved_keys = seconds * 0.3, 0, 0
    killed = takeover = restarted = None
    while time.monotonic() - begin < seconds or restarted is None:
        now = time.monotonic() - begin
        if killed is None and now > kill_at:
            cluster.set_node_timeout(FAILOVER_MS)
            victim.kill()
            killed = time.monotonic()
        if killed and takeover is None and replica.is_master():
            takeover = time.monotonic() - killed
            cluster.set_node_timeout(NODE_TIMEOUT_MS)
        if takeover is not None and restarted is None:
            victim.start()
            restarted = time.monotonic()
        slot = movable[moved_slots % len(movable)]
        source = cluster.owner(slot)
        moved_keys += cluster.move(slot, b if source in (a, cluster.replicas[0]) else a)
        moved_slots += 1
        time.sleep(0.05)
        if now > seconds + 200:
            raise AssertionError("the replica does not take over")
    return {"slots": moved_slots, "keys": moved_keys, "takeover": takeover}


def demo(kind, module, seconds, consumers):
    begin = time.monotonic()
    cluster = Cluster(kind, module)
    print(f"six servers: {cluster.nodes[0].client.info('server', 'redis_version')} after "
          f"{time.monotonic() - begin:.1f} s", file=sys.stderr)
    client = ClusterClient([node.port for node in cluster.nodes])
    for i in range(SHARDS):
        client("BF.RESERVE", f"seen:{{{i}}}", RATE, CAPACITY)
    ends, results = multiprocessing.Event(), multiprocessing.Queue()
    processes = [multiprocessing.Process(target=consume, args=(number, consumers, client.ports, ends, results), daemon=True)
                 for number in range(consumers)]
    start = time.monotonic()
    for process in processes:
        process.start()
    disturbed = disturb(cluster, seconds)
    cluster.wait()
    ends.set()
    told = [results.get(timeout=240) for _ in processes]
    return compare(client, told, disturbed, time.monotonic() - start)


def compare(client, told, disturbed, elapsed):
    """The table, and whether everything that must hold does."""
    figures = [each for *_, each in told]
    total = {name: sum(f[name] for f in figures) for name in figures[0]}
    exact, times, acknowledged = set(), collections.Counter(), set()
    for number, handled, of_one, f in told:
        for block in range(f["blocks"]):
            exact.update(deliveries(number, len(told), block))
        times.update(handled)
        acknowledged.update(of_one)
    by_shard = {}
    for message in exact:
        by_shard.setdefault(shard(message), []).append(message)
    lost, bytes_ = 0, 0
    for key, messages in by_shard.items():
        for at in range(0, len(messages), 2000):
            part = messages[at : at + 2000]
            for message, found in zip(part, client("BF.MEXISTS", key, *part)):
                lost += message in acknowledged and not found
        bytes_ += client("BF.INFO", key, "SIZE")[0]
    missing = len(exact) - len(times)
    twice = sum(count > 1 for count in times.values())
    allowed = RATE * len(exact) + 5 * (RATE * len(exact)) ** 0.5 + 1
    rows = [
        ("consumers, each a process", len(told)),
        ("messages delivered", total["read"]),
        ("distinct messages", len(exact)),
        ("messages per second", round(total["read"] / elapsed)),
        ("bits of filter per distinct message", round(8 * bytes_ / len(exact), 1)),
        ("slots moved meanwhile", disturbed["slots"]),
        ("filters moved meanwhile", disturbed["keys"]),
        ("replies MOVED / ASK", f"{total['moved']} / {total['asked']}"),
        ("killed by -9: seconds until the replica had taken over", f"{disturbed['takeover']:.1f}"),
        ("longest wait of a consumer, seconds", f"{max(f['stall'] for f in figures):.1f}"),
        ("adds whose connection broke", total["unsure"]),
        ("adds sent again", total["retried"]),
        ("handled", len(times)),
        ("handled twice; the first add was not acknowledged", twice),
        (f"wrongly dropped; the rate asked, {RATE:g}, allows {RATE * len(exact):.0f}", missing),
        ("acknowledged adds", len(acknowledged)),
        ("acknowledged adds lost", lost),
        (f"acknowledged, delivered again ({total['redelivered']}), handled again", total["repeated"]),
    ]
    width = max(len(label) for label, _ in rows)
    print()
    for label, value in rows:
        print(f"{label:{width}}  {value:>12}")
    print(LEGEND)
    good = lost == 0 and total["repeated"] == 0 and missing <= allowed and twice <= total["unsure"] + total["retried"]
    good = good and disturbed["slots"] > 0 and disturbed["keys"] > 0
    print("\n" + ("nothing that was acknowledged is lost" if good else "BAD: see the table"))
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=servers.KINDS, required=True)
    parser.add_argument("--module", required=True, help="tamis-redis.so")
    parser.add_argument("--seconds", type=float, default=20, help="how long the cluster is disturbed")
    parser.add_argument("--consumers", type=int, default=4)
    args = parser.parse_args()
    if not servers.find_program(args.server):
        print(f"skipped: no {args.server}-server here")
        return SKIPPED
    return supervised(lambda _: demo(args.server, os.path.abspath(args.module), args.seconds, args.consumers))


if __name__ == "__main__":
    sys.exit(main())
