#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the package; docs/use/python.md has the results.

    measure.py calls [--keys N]     single calls and batches, beside a set; ratios of medians of interleaved rounds
    measure.py batches [--keys N]   numpy batches beside the C call, whose library TAMIS_LIBRARY must name
    measure.py threads [--keys N]   two threads beside one, on a machine with nothing else to do
    measure.py memory [--keys N]    bytes for each key, beside a set
    measure.py winners [--keys N]   four spawned processes on one shared filter: one winner for each key
    measure.py requests [--keys N]  tamis.scrapy.DupeFilter on so many URLs, killed and resumed, beside RFPDupeFilter

Times are those of the processor, so that other work on the machine matters less; of threads, those of the clock.
"""
import argparse
import ctypes
import multiprocessing
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import tamis

ROUNDS = 7


def interleaved(bodies, clock=time.process_time):
    """Medians of seconds, of bodies that are run in turn: {name: body}; a body may return what it is to be timed."""
    times = {name: [] for name in bodies}
    for _ in range(ROUNDS):
        for name, prepare in bodies.items():
            body = prepare()
            begun = clock()
            body()
            times[name].append(clock() - begun)
    return {name: statistics.median(values) for name, values in times.items()}


def urls(n, first=0):
    return [f"https://example.org/page/{i}" for i in range(first, first + n)]


def each(call, keys):
    for key in keys:
        call(key)


def each_in(where, keys):
    for key in keys:
        key in where


def calls(n):
    keys, others = urls(n), urls(n, n)
    exact = set(keys)
    print(f"{n} str keys; nanoseconds a key, and the ratio to the row of the set, or of single adds\n")
    for capacity, fpp in (n, 0.01), (n, 1e-6), (10 * n, 1e-6):
        f = tamis.Bloom(capacity, fpp)
        f.update(keys)

        def new():
            return tamis.Bloom(capacity, fpp)

        t = interleaved({
            "set: in": lambda: lambda: each_in(exact, keys), "in": lambda: lambda: each_in(f, keys),
            "set: in, absent": lambda: lambda: each_in(exact, others), "in, absent": lambda: lambda: each_in(f, others),
            "set: add": lambda: lambda: each(set().add, keys), "add": lambda: lambda: each(new().add, keys),
            "update": lambda: lambda: new().update(keys), "add_many": lambda: lambda: new().add_many(keys),
            "contains_many": lambda: lambda: f.contains_many(keys)})
        base = {"in": "set: in", "in, absent": "set: in, absent", "add": "set: add", "update": "add", "add_many": "add",
                "contains_many": "in"}
        print(f"Bloom(capacity={capacity}, fpp={fpp:g})")
        for name, seconds in t.items():
            ratio = f"{seconds / t[base[name]]:6.2f} of {base[name]!r}" if name in base else ""
            print(f"  {name:16} {seconds / n * 1e9:7.1f} {ratio}")


def batches(n):
    import numpy

    library = ctypes.CDLL(os.environ["TAMIS_LIBRARY"])
    library.tamis_contains_many.restype = ctypes.c_size_t
    library.tamis_contains_many.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    library.tamis_add_unique_many.argtypes = library.tamis_contains_many.argtypes
    library.tamis_load_file.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    library.tamis_destroy.argtypes = [ctypes.c_void_p]
    numbers = numpy.random.default_rng(1).integers(0, 2**63, n)
    keys = numpy.zeros(n, dtype=[("data", "u8"), ("len", "u8")])
    keys["data"], keys["len"] = numbers.ctypes.data + 8 * numpy.arange(n), 8
    found, results = numpy.zeros(n, dtype=bool), numpy.zeros(n, dtype="i4")

    def loaded(folder):
        out = ctypes.c_void_p()
        assert library.tamis_load_file(None, os.fsencode(folder + "/f"), ctypes.byref(out)) == 0
        return out

    print(f"{n} int64 in a numpy array; nanoseconds a key, and the ratio to the C call")
    for capacity, fpp in (n, 0.01), (10 * n, 1e-6):
        f = tamis.Bloom(capacity, fpp)
        with tempfile.TemporaryDirectory() as folder:
            f.save(folder + "/f")
            empty = [loaded(folder) for _ in range(ROUNDS)]
            f.update(numbers)
            f.save(folder + "/f")
            full = loaded(folder)
        t = interleaved({
            "C: tamis_contains_many": lambda: lambda: library.tamis_contains_many(
                full, keys.ctypes.data, n, found.ctypes.data),
            "contains_many": lambda: lambda: f.contains_many(numbers),
            "C: tamis_add_unique_many": lambda: lambda one=empty.pop(): library.tamis_add_unique_many(
                one, keys.ctypes.data, n, results.ctypes.data),
            "add_many": lambda: lambda one=tamis.Bloom(capacity, fpp): one.add_many(numbers)})
        print(f"Bloom(capacity={capacity}, fpp={fpp:g})")
        for name, seconds in t.items():
            base = {"contains_many": "C: tamis_contains_many", "add_many": "C: tamis_add_unique_many"}.get(name)
            print(f"  {name:25} {seconds / n * 1e9:7.1f}" + (f" {seconds / t[base]:6.2f}" if base else ""))


def threads(n):
    import numpy

    numbers = numpy.random.default_rng(1).integers(0, 2**63, n)
    half = numbers[:n // 2], numbers[n // 2:]
    lists = [part.astype(str).tolist() for part in half]

    def together(call, parts):
        running = [threading.Thread(target=call, args=(part,)) for part in parts]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    print(f"{n} keys, two threads: how often as fast as one, by the clock")
    for capacity, fpp in (n, 0.01), (10 * n, 1e-6):
        f = tamis.Bloom(capacity, fpp)
        print(f"Bloom(capacity={capacity}, fpp={fpp:g})")
        for name, parts in ("numpy", half), ("list of str", lists):
            f.update(*parts)
            for call in "contains_many", "update":
                def target():
                    return f if call == "contains_many" else tamis.Bloom(capacity, fpp)

                t = interleaved({
                    "one": lambda: lambda one=target(): [getattr(one, call)(part) for part in parts],
                    "two": lambda: lambda one=target(): together(getattr(one, call), parts)}, time.perf_counter)
                print(f"  {call:14} {name:12} {t['one'] / t['two']:5.2f}")


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def memory(n):
    print(f"{n} URLs; bytes for each")
    before = resident()
    exact = set(urls(n))
    print(f"  set of str        {(resident() - before) / n:7.1f}")
    for capacity, fpp in (n, 0.01), (n, 1e-6), (n, 1e-9):
        f = tamis.Bloom(capacity, fpp)
        f.update(exact)
        c = tamis.Cuckoo(capacity, max(fpp, 1e-7))
        c.update(exact)
        print(f"  fpp {fpp:g}: Bloom {f.nbytes / n:.2f}, Cuckoo {c.nbytes / n:.2f}")


def win(path, n, barrier, results):
    f, keys = tamis.shared(path), urls(n)
    barrier.wait()
    results.put(bytes(f.add_many(keys)))


def winners(n):
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        f = tamis.shared(folder + "/f", n, 1e-12)
        results, barrier = context.Queue(), context.Barrier(4)
        processes = [context.Process(target=win, args=(f.path, n, barrier, results)) for _ in range(4)]
        for process in processes:
            process.start()
        answers = [results.get() for _ in processes]
        for process in processes:
            process.join()
    print(f"{n} keys, 4 processes: wins {[sum(one) for one in answers]}")
    counts = [sum(of_key) for of_key in zip(*answers)]
    print(f"keys with one winner: {counts.count(1)}, with none: {counts.count(0)}, with more: {n - counts.count(1) - counts.count(0)}")


REQUESTS = """
import os, resource, sys, time
name, folder, first, n, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
import hashlib, scrapy.dupefilters, tamis.scrapy
class Fingerprinter:  # Scrapy's own takes 50 us for a request
    def fingerprint(self, request): return hashlib.sha1(request.encode()).digest()
fingerprinter = Fingerprinter()
if name == "tamis":
    f = tamis.scrapy.DupeFilter(folder, fingerprinter=fingerprinter, capacity=10_000_000)
else:
    f = scrapy.dupefilters.RFPDupeFilter(folder, fingerprinter=fingerprinter)
rss = lambda: int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
begun, seen = time.process_time(), 0
for i in range(first, first + n):
    seen += f.request_seen(f"https://example.org/page/{i}?session=no&page={i % 1000}")
    if pause and i == first + pause:
        if name == "tamis": f.seen.save(f._path)
        else: f.file.flush()
        print("saved", flush=True)
print(seen, time.process_time() - begun, rss(), getattr(f, "seen", None) and f.seen.nbytes, flush=True)
f.close("finished")
"""


def requests(n):
    for name in "tamis", "RFPDupeFilter":
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "PYTHONHASHSEED": "0"}

            def start(first, count, pause=0):
                return subprocess.Popen([sys.executable, "-c", REQUESTS, name, folder, str(first), str(count), str(pause)],
                                        stdout=subprocess.PIPE, text=True, env=environment)

            process = start(0, 1)
            base = int(process.communicate()[0].split()[2])
            # Half of the requests are saved; the process goes on, and is killed.
            process = start(0, n, n // 2)
            assert process.stdout.readline() == "saved\n"
            time.sleep(2)
            process.send_signal(signal.SIGKILL)
            process.wait()
            out = start(0, n).communicate()[0].split()
            seen, seconds, memory, filter_bytes = int(out[0]), float(out[1]), int(out[2]) - base, out[3]
            print(f"{name}: {n} requests; resumed after kill -9, {seen} were known ({n // 2 + 1} had been saved);"
                  f" {memory / 2**20:.1f} MiB more than with one request"
                  + (f", of which the filter has {int(filter_bytes) / 2**20:.1f}" if filter_bytes != "None" else "")
                  + f"; {seconds / n * 1e6:.1f} us each", flush=True)
            out = start(n, 10**5).communicate()[0].split()
            print(f"  of 10^5 new requests, {out[0]} were taken for duplicates")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["calls", "batches", "threads", "memory", "winners", "requests"])
    parser.add_argument("--keys", type=int, default=10**6)
    options = parser.parse_args()
    globals()[options.what](options.keys)


if __name__ == "__main__":
    main()
