#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Prints what keys with filters take by MEMORY USAGE, beside RedisBloom's bytes by its published formula.

    small.py [--server redis|valkey] --module PATH

RedisBloom takes -log2(rate) / ln 2 bits for each item, in words of 64 bits, with half the rate in a filter that
grows; and 96 bytes beside them, as BF.INFO says there.  What the server takes for a key is added to both.
Both are the bytes that jemalloc hands out, which has four sizes of blocks for each doubling.
"""
import argparse
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tests"))
import server as servers


def theirs(items, rate, grows):
    bits = int(items * -math.log(rate / 2 if grows else rate) / math.log(2) ** 2)
    return 96 + block((bits + 63) // 64 * 8)


def block(size):
    step = max(16, 1 << (size - 1).bit_length() - 3)
    return (size + step - 1) // step * step


def measure(server, items, rate, grows):
    """The bytes of a key with a filter that is full, and those of RedisBloom."""
    server("DEL", "f")
    server("BF.RESERVE", "f", repr(rate), items, *([] if grows else ["NONSCALING"]))
    for start in range(0, items, 1000):
        server("BF.MADD", "f", *range(start, min(items, start + 1000)))
    usage, (own,) = server("MEMORY", "USAGE", "f"), server("BF.INFO", "f", "SIZE")
    return usage, theirs(items, rate, grows) + usage - own


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--server", choices=servers.KINDS, default="valkey")
    parser.add_argument("--module", required=True)
    args = parser.parse_args()
    server = servers.Server(args.server, str(pathlib.Path(args.module).resolve()))
    print("| items | rate | growing: bits for each item | RedisBloom | ratio | NONSCALING | RedisBloom | ratio |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for items in (100, 1000, 10000, 10**6):
        for rate in (0.01, 0.001, 1e-6, 1e-8):
            row = f"| {items:,} | {rate:g} |"
            for grows in (True, False):
                usage, other = measure(server, items, rate, grows)
                row += f" {8 * usage / items:.1f} | {8 * other / items:.1f} | {usage / other:.2f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
