#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module next to the server's own sets: memory per key, commands per second with pipelining, and the
latency of single adds while a key grows from 1,000 to many elements.  docs/use/redis.md has some of its figures.

    bench.py --server redis|valkey --module PATH [--keys N] [--rounds N] [--probes N]

All subjects are measured in turns in one run, each in a fresh server, by one client over loopback; rates
are medians of rounds.
"""
import argparse
import os
import pathlib
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tests"))
import server as servers  # noqa: E402

SUBJECTS = {  # name: reserve, add, look up
    "SADD, SISMEMBER": (None, b"SADD", b"SISMEMBER"),
    "BF.ADD, BF.EXISTS": (("BF.RESERVE", "f", "0.01", "1000"), b"BF.ADD", b"BF.EXISTS"),
    "BF.ADD, BF.EXISTS, 1e-6": (("BF.RESERVE", "f", "1e-6", "1000"), b"BF.ADD", b"BF.EXISTS"),
    "CF.ADD, CF.EXISTS": (("CF.RESERVE", "f", "1000"), b"CF.ADD", b"CF.EXISTS"),
}


def key(number):
    return b"user:%012d" % number


def encoded(command, numbers):
    """Requests, made before the clock runs."""
    head = b"*3\r\n$%d\r\n%s\r\n$1\r\nf\r\n$17\r\n" % (len(command), command)
    return b"".join(head + key(number) + b"\r\n" for number in numbers)


class Pipe:
    """Sends a million requests at a time and counts the bytes of replies: each is ":0" or ":1"."""

    def __init__(self, port):
        self.client = servers.Client(port)

    def run(self, requests, count):
        sender = threading.Thread(target=self.client.socket.sendall, args=(requests,))
        begin = time.perf_counter()
        sender.start()
        waiting = count * 4
        replies = []
        while waiting > 0:
            data = self.client.socket.recv(min(waiting, 1 << 16))
            if not data:
                raise ConnectionError
            replies.append(data)
            waiting -= len(data)
        seconds = time.perf_counter() - begin
        sender.join()
        whole = b"".join(replies)
        assert b"-" not in whole, whole[:200]
        return seconds, whole.count(b"1")


def start(args, name):
    """A server with the empty key.  It logs each command that takes longer than a millisecond."""
    server = servers.Server(args.server, os.path.abspath(args.module), "--slowlog-log-slower-than", "1000")
    reserve = SUBJECTS[name][0]
    if reserve:
        server(*reserve)
    return server


def measure(args, name, steps):
    """Fills a key to the last step.  Returns a dict of figures of each step."""
    _, add, look_up = SUBJECTS[name]
    server = start(args, name)
    pipe = Pipe(server.port)
    figures, done = {}, 0
    for step in steps:
        seconds, begin = 0.0, done
        while done < step:
            size = min(step - done, 200_000)
            seconds += pipe.run(encoded(add, range(done, done + size)), size)[0]
            done += size
        size = min(step, 200_000)
        hit_seconds, found = pipe.run(encoded(look_up, range(size)), size)
        miss_seconds, wrong = pipe.run(encoded(look_up, range(10**11, 10**11 + size)), size)
        assert found == size, "a key is missing"
        # MEMORY USAGE samples the elements of a set, which are all of one length here.
        figures[step] = {"bits": 8 * server("MEMORY", "USAGE", "f", "SAMPLES", "1000") / step,
                         "adds": (step - begin) / seconds, "hits": size / hit_seconds,
                         "misses": size / miss_seconds, "wrong": wrong / size}
    server.kill()
    return figures


def latency(args, name, last):
    """Adds while the key grows from 1,000 to `last`: by the server's clock, all of them; and by the
    client's, some that were alone on the wire."""
    add = SUBJECTS[name][1]
    server = start(args, name)
    pipe = Pipe(server.port)
    pipe.run(encoded(add, range(1000)), 1000)
    server("CONFIG", "RESETSTAT")
    done, times = 1000, []
    part = max(1, (last - done) // args.probes)
    while done < last:
        request = encoded(add, (done,))
        begin = time.perf_counter()
        pipe.client.socket.sendall(request)
        pipe.client.socket.recv(4)
        times.append(time.perf_counter() - begin)
        done += 1
        rest = min(part - 1, last - done)
        if rest > 0:
            pipe.run(encoded(add, range(done, done + rest)), rest)
            done += rest
    name = f"latency_percentiles_usec_{add.decode()}:".lower()
    percentiles = next(line.partition(":")[2] for line in server("INFO", "latencystats").decode().splitlines()
                       if line.lower().startswith(name))
    slow = [entry[2] / 1000 for entry in server("SLOWLOG", "GET", "1000") if entry[3][0].upper() == add]
    server.kill()
    times.sort()
    return {"median": times[len(times) // 2] * 1e6, "p999": times[int(len(times) * 0.999)] * 1e6,
            "server": dict(part.split("=") for part in percentiles.split(",")),
            "longest": f"{max(slow):.1f}" if slow else "below 1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=servers.KINDS, default="redis")
    parser.add_argument("--module", required=True)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--probes", type=int, default=100_000, help="single adds whose latency is measured")
    args = parser.parse_args()
    if not servers.find_program(args.server):
        sys.exit(f"no {args.server}-server here")
    steps = [step for step in (10**5, 10**6, 10**7, 10**8) if step <= args.keys]
    rounds = {name: [] for name in SUBJECTS}
    for number in range(args.rounds):
        for name in SUBJECTS:
            print(f"round {number + 1}: {name}", file=sys.stderr)
            rounds[name].append(measure(args, name, steps))

    def median(name, step, field):
        return statistics.median(figures[step][field] for figures in rounds[name])

    print("| keys | commands | bits per key | adds/s | look-ups/s, present | look-ups/s, absent | wrong |")
    print("|--:|---|--:|--:|--:|--:|--:|")
    for step in steps:
        for name in SUBJECTS:
            figures = [median(name, step, field) for field in ("bits", "adds", "hits", "misses", "wrong")]
            print(f"| 10^{len(str(step)) - 1} | {name} | {figures[0]:.1f} | {figures[1] / 1e3:.0f} k | "
                  f"{figures[2] / 1e3:.0f} k | {figures[3] / 1e3:.0f} k | {figures[4]:.2g} |")
    print(f"\nAdds while a key grows from 1,000 to 10^{len(str(args.keys)) - 1} elements:\n")
    print("| command | P50, P99, P99.9 by the server's clock, µs | longest, ms | alone on the wire: median, P99.9, µs |")
    print("|---|--:|--:|--:|")
    for name in SUBJECTS:
        print(f"latency: {name}", file=sys.stderr)
        figures = latency(args, name, args.keys)
        inside = ", ".join(f"{float(figures['server'][p]):.0f}" for p in ("p50", "p99", "p99.9"))
        print(f"| {name} | {inside} | {figures['longest']} | {figures['median']:.0f}, {figures['p999']:.0f} |")


if __name__ == "__main__":
    main()
