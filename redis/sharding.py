#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What sharing a filter among many machines costs and promises: the formulas of docs/use/many-machines.md, with
numbers.  --simulate compares those that have chance in them with a simulation of fewer machines.

    sharding.py [--nodes N] [--keys K] [--rate P] [--bits B] [--gap S] [--period S]
    sharding.py --simulate
    sharding.py --tags        a hash tag for each slot of a cluster, one a line
"""
import argparse
import binascii
import math
import random

SLOTS = 16384


def poisson_at_least(mean, n):
    """P(X >= n) for a Poisson variable, with sums of small terms only."""
    term, total, i = math.exp(-mean + n * math.log(mean) - math.lgamma(n + 1)), 0.0, n
    while term > total * 1e-12 or i < mean:
        total += term
        i += 1
        term *= mean / i
    return total


def fullest(bins, mean):
    """The number of balls in the fullest of so many bins, which half of all trials exceed at most."""
    n = max(1, round(mean))
    while bins * poisson_at_least(mean, n + 1) > 0.5:
        n += 1
    return n


def missed(period, gap):
    """The probability that no union lies between two copies of a key.  Unions come every `period`, the
    time between the copies is exponential with mean `gap`."""
    x = period / gap
    return 1 - -math.expm1(-x) / x


def human(number):
    for unit in ("", " k", " M", " G", " T", " P"):
        if number < 1000 or unit == " P":
            return f"{number:.3g}{unit}"
        number /= 1000


def bytes_(number):
    return human(number) + "B" if number >= 1000 else f"{number:.0f} B"


def table(a):
    total = a.keys * a.bits / 8
    shards = SLOTS
    per_shard = a.keys / shards
    most = per_shard + 5 * math.sqrt(per_shard)
    print(f"{a.nodes} nodes, {human(a.keys)} distinct keys, rate {a.rate:g}, {a.bits} bits per key\n")
    rows = [
        ("one filter in all", bytes_(total)),
        ("one filter a slot", ""),
        ("  keys in each of 16,384 filters", f"{human(per_shard)}, at most {human(most)}"),
        ("  bytes of each", bytes_(per_shard * a.bits / 8)),
        ("  bytes of a node, and with a replica of another", f"{bytes_(total / a.nodes)}, {bytes_(2 * total / a.nodes)}"),
        ("  filters of the fullest node, mean 1", f"{math.ceil(shards / a.nodes) / (shards / a.nodes):.2f}"),
        ("  the same, if 16,384 tags are taken at random", f"{fullest(a.nodes, shards / a.nodes) / (shards / a.nodes):.2f}"),
        ("  wrongly dropped in all", human(a.keys * a.rate)),
        ("a filter of all keys on each node, united", ""),
        ("  bytes of a node", bytes_(total)),
        ("  bytes on the network for one union of all", bytes_(2 * a.nodes * total)),
        (f"  copies handled twice: gap {a.gap:g} s, a union each {a.period:g} s",
         f"{100 * (1 - 1 / a.nodes) * missed(a.period, a.gap):.2g} %"),
        ("a filter of its own keys on each node, all asked", ""),
        ("  commands for a key", a.nodes),
        ("  rate", f"{-math.expm1(a.nodes * math.log1p(-a.rate)):.2g}"),
    ]
    for label, value in rows:
        print(f"{label:60} {value:>28}")


def simulate():
    """Formula and simulation side by side."""
    generator = random.Random(1)
    for nodes in (10, 100, 1000):
        trials = [max(balls(generator, nodes)) for _ in range(40)]
        print(f"filters of the fullest of {nodes} nodes: formula {fullest(nodes, SLOTS / nodes)}, "
              f"median of 40 trials {sorted(trials)[20]}")
    for period, gap in ((1, 10), (10, 10), (60, 10)):
        tries, miss = 400_000, 0
        for _ in range(tries):
            phase = generator.random() * period
            miss += phase + generator.expovariate(1 / gap) < period
        print(f"no union between two copies, period {period} s, gap {gap} s: formula {missed(period, gap):.4f}, "
              f"simulation {miss / tries:.4f}")
    keys, shards = 2_000_000, 256
    counts = [0] * shards
    for _ in range(keys):
        counts[generator.getrandbits(8)] += 1
    mean = keys / shards
    print(f"fullest of {shards} shards of {keys} keys: bound {mean + 5 * math.sqrt(mean):.0f}, simulation {max(counts)}")


def balls(generator, nodes):
    counts = [0] * nodes
    for _ in range(SLOTS):
        counts[generator.randrange(SLOTS) * nodes // SLOTS] += 1
    return counts


def tags():
    """For each slot the smallest number whose digits, as a hash tag, have it."""
    found, number = {}, 0
    while len(found) < SLOTS:
        found.setdefault(binascii.crc_hqx(b"%d" % number, 0) % SLOTS, number)
        number += 1
    return [found[slot] for slot in range(SLOTS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--keys", type=float, default=1e11)
    parser.add_argument("--rate", type=float, default=1e-6)
    parser.add_argument("--bits", type=float, default=40, help="per key, at that rate (docs/reference/space.md)")
    parser.add_argument("--gap", type=float, default=60, help="mean seconds between copies of a key")
    parser.add_argument("--period", type=float, default=10, help="seconds between unions")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--tags", action="store_true")
    args = parser.parse_args()
    if args.simulate:
        simulate()
    elif args.tags:
        print("\n".join(map(str, tags())))
    else:
        table(args)


if __name__ == "__main__":
    main()
