#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module for Redis and Valkey next to the server's own sets: memory per key, commands per second with pipelining,
and how long adds take while a key grows from 1,000 to many elements.  docs/use/redis.md has some of its figures.

    redis_module.py --server redis|valkey --module PATH [--keys N] [--rounds N]

All subjects are measured in turns in one run, each in a fresh server, by one client over loopback; rates are medians.
"""
import argparse
import os
import pathlib
import statistics
import sys
import threading
import time

import results
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "redis/tests"))
import server as servers  # noqa: E402

SUBJECTS = {  # name: reserve, add, look up
    "SADD, SISMEMBER": (None, b"SADD", b"SISMEMBER"),
    "BF.ADD, BF.EXISTS": (("BF.RESERVE", "f", "0.01", "1000"), b"BF.ADD", b"BF.EXISTS"),
    "BF.ADD, BF.EXISTS, 1e-6": (("BF.RESERVE", "f", "1e-6", "1000"), b"BF.ADD", b"BF.EXISTS"),
    "CF.ADD, CF.EXISTS": (("CF.RESERVE", "f", "1000"), b"CF.ADD", b"CF.EXISTS"),
}
AT_ONCE, ABSENT = 200_000, 10**11


def run(client, command, first, count):
    """Seconds, and how many answered yes.  Requests are made before the clock runs; each reply is ":0" or ":1"."""
    head = b"*3\r\n$%d\r\n%s\r\n$1\r\nf\r\n$17\r\n" % (len(command), command)
    requests = b"".join(head + b"user:%012d\r\n" % number for number in range(first, first + count))
    sender = threading.Thread(target=client.socket.sendall, args=(requests,))
    begin, replies = time.perf_counter(), b""
    sender.start()
    while len(replies) < 4 * count:
        replies += client.reader.read1(1 << 18) or sys.exit("the server has gone")
    seconds = time.perf_counter() - begin
    sender.join()
    assert b"-" not in replies, replies[:200]
    return seconds, replies.count(b"1")


def measure(args, subject, steps):
    """Fills a key to the last step.  Returns the figures of each step, and quantiles of the adds by the server's clock."""
    reserve, add, look_up = subject
    server = servers.Server(args.server, os.path.abspath(args.module))
    if reserve:
        server(*reserve)
    client, figures, done = servers.Client(server.port), {}, 0
    for step in steps:
        seconds, begin = 0, done
        while done < step:
            size = min(step - done, AT_ONCE)
            seconds += run(client, add, done, size)[0]
            done += size
        size = min(step, AT_ONCE)
        (hit, found), (miss, wrong) = run(client, look_up, 0, size), run(client, look_up, ABSENT, size)
        assert found == size, "a key is missing"
        # MEMORY USAGE samples the elements of a set, which are all of one length here.
        bits = 8 * server("MEMORY", "USAGE", "f", "SAMPLES", "1000") / step
        figures[step] = bits, (step - begin) / seconds / 1e3, size / hit / 1e3, size / miss / 1e3, wrong / size
    said = server("INFO", "latencystats").decode().lower()
    server.kill()
    return figures, said.split(f"usec_{add.decode().lower()}:")[1].split()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=servers.KINDS, default="redis")
    parser.add_argument("--module", required=True)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if not servers.find_program(args.server):
        sys.exit(f"no {args.server}-server here")
    steps = [step for step in (10**5, 10**6, 10**7, 10**8) if step <= args.keys]
    found = results.interleaved(args.rounds, SUBJECTS, lambda subject: measure(args, subject, steps))
    print("| keys | commands | bits per key | adds/s | look-ups/s, present | look-ups/s, absent | wrong |\n"
          "|--:|---|--:|--:|--:|--:|--:|")
    for step in steps:
        for name, rounds in found.items():
            bits, adds, hits, misses, wrong = map(statistics.median, zip(*(figures[step] for figures, _ in rounds)))
            print(f"| 10^{len(str(step)) - 1} | {name} | {bits:.1f} | {adds:.0f} k | {hits:.0f} k | {misses:.0f} k |"
                  f" {wrong:.2g} |")
    print("\nMicroseconds of an add by the server's clock, while the key grew:")
    for name, rounds in found.items():
        print(f"{name}: {', '.join(quantiles for _, quantiles in rounds)}")


if __name__ == "__main__":
    main()
