#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the Python package; docs/use/python.md has the results.

    python_package.py calls [--keys N]     single calls and batches, beside a set
    python_package.py batches [--keys N]   numpy batches beside the C call, whose library TAMIS_LIBRARY must name
    python_package.py threads [--keys N]   one thread beside two, on a machine with nothing else to do
    python_package.py memory [--keys N]    bytes for each key, beside a set
    python_package.py requests [--keys N]  tamis.scrapy.DupeFilter that saw so many URLs, beside RFPDupeFilter

Times are those of the processor, so that other work on the machine matters less; of threads, those of the clock.
"""
import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import results
import tamis

ROUNDS = 7


def show(title, n, bodies, base, clock=time.process_time):
    """Nanoseconds a key of {name: what prepares a call}, and the ratio to base[name]."""
    def timed(prepare):
        body = prepare()
        begun = clock()
        body()
        return clock() - begun

    t = {name: statistics.median(times) for name, times in results.interleaved(ROUNDS, bodies, timed).items()}
    print(title)
    for name, seconds in t.items():
        ratio = f" {seconds / t[base[name]]:6.2f} of {base[name]!r}" if name in base else ""
        print(f"  {name:25} {seconds / n * 1e9:7.1f}{ratio}")


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
    for capacity, fpp in (n, 0.01), (n, 1e-6), (10 * n, 1e-6):
        f = tamis.Bloom(capacity, fpp)
        f.update(keys)

        def new():
            return tamis.Bloom(capacity, fpp)

        show(f"{n} str keys, Bloom(capacity={capacity}, fpp={fpp:g})", n, {
            "set: in": lambda: lambda: each_in(exact, keys), "in": lambda: lambda: each_in(f, keys),
            "set: in, absent": lambda: lambda: each_in(exact, others), "in, absent": lambda: lambda: each_in(f, others),
            "set: add": lambda: lambda: each(set().add, keys), "add": lambda: lambda: each(new().add, keys),
            "update": lambda: lambda: new().update(keys), "add_many": lambda: lambda: new().add_many(keys),
            "contains_many": lambda: lambda: f.contains_many(keys)},
            {"in": "set: in", "in, absent": "set: in, absent", "add": "set: add", "update": "add", "add_many": "add",
             "contains_many": "in"})


def batches(n):
    import numpy

    library = ctypes.CDLL(os.environ["TAMIS_LIBRARY"])
    library.tamis_contains_many.restype = ctypes.c_size_t
    library.tamis_contains_many.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    library.tamis_add_unique_many.argtypes = library.tamis_contains_many.argtypes
    library.tamis_load_file.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    numbers = numpy.random.default_rng(1).integers(0, 2**63, n)
    keys = numpy.zeros(n, dtype=[("data", "u8"), ("len", "u8")])
    keys["data"], keys["len"] = numbers.ctypes.data + 8 * numpy.arange(n), 8
    found, new = numpy.zeros(n, dtype=bool), numpy.zeros(n, dtype="i4")

    def loaded(f):
        out = ctypes.c_void_p()
        with tempfile.NamedTemporaryFile() as file:
            f.save(file.name)
            assert library.tamis_load_file(None, os.fsencode(file.name), ctypes.byref(out)) == 0
        return out

    for capacity, fpp in (n, 0.01), (10 * n, 1e-6):
        f = tamis.Bloom(capacity, fpp)
        empty = [loaded(f) for _ in range(ROUNDS)]
        f.update(numbers)
        full = loaded(f)
        show(f"{n} int64 in a numpy array, Bloom(capacity={capacity}, fpp={fpp:g})", n, {
            "C: tamis_contains_many": lambda: lambda: library.tamis_contains_many(
                full, keys.ctypes.data, n, found.ctypes.data),
            "contains_many": lambda: lambda: f.contains_many(numbers),
            "C: tamis_add_unique_many": lambda: lambda one=empty.pop(): library.tamis_add_unique_many(
                one, keys.ctypes.data, n, new.ctypes.data),
            "add_many": lambda: lambda one=tamis.Bloom(capacity, fpp): one.add_many(numbers)},
            {"contains_many": "C: tamis_contains_many", "add_many": "C: tamis_add_unique_many"})


def threads(n):
    import numpy

    numbers = numpy.random.default_rng(1).integers(0, 2**63, n)
    half = numbers[:n // 2], numbers[n // 2:]

    def together(call, parts):
        running = [threading.Thread(target=call, args=(part,)) for part in parts]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    for capacity, fpp in (n, 0.01), (10 * n, 1e-6):
        f = tamis.Bloom(capacity, fpp)
        for name, parts in ("numpy", half), ("list of str", [part.astype(str).tolist() for part in half]):
            f.update(*parts)
            for call in "contains_many", "update":
                def target():
                    return f if call == "contains_many" else tamis.Bloom(capacity, fpp)

                show(f"{call}, {name}, Bloom(capacity={capacity}, fpp={fpp:g})", n, {
                    "two threads": lambda: lambda one=target(): together(getattr(one, call), parts),
                    "one thread": lambda: lambda one=target(): [getattr(one, call)(part) for part in parts]},
                    {"one thread": "two threads"}, time.perf_counter)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def memory(n):
    before = resident()
    exact = set(urls(n))
    print(f"{n} URLs; bytes for each: set of str {(resident() - before) / n:.1f}")
    for fpp in 0.01, 1e-6, 1e-9:
        f, c = tamis.Bloom(n, fpp), tamis.Cuckoo(n, max(fpp, 1e-7))
        f.update(exact)
        c.update(exact)
        print(f"  fpp {fpp:g}: Bloom {f.nbytes / n:.2f}, Cuckoo {c.nbytes / n:.2f}")


def see_requests(name, n):
    import hashlib
    import scrapy.dupefilters
    import tamis.scrapy

    class Fingerprinter:
        """Scrapy's own takes 50 us for a request."""
        def fingerprint(self, request):
            return hashlib.sha1(request.encode()).digest()

    with tempfile.TemporaryDirectory() as folder:
        f = (tamis.scrapy.DupeFilter(folder, fingerprinter=Fingerprinter(), capacity=10_000_000) if name == "tamis"
             else scrapy.dupefilters.RFPDupeFilter(folder, fingerprinter=Fingerprinter()))
        before, begun = resident(), time.process_time()
        duplicates = sum(f.request_seen(f"https://example.org/page/{i}?session=no&page={i % 1000}") for i in range(n))
        print(f"{name}: {n} requests, {duplicates} taken for duplicates; {(time.process_time() - begun) / n * 1e6:.1f} us each;"
              f" {(resident() - before) / 2**20:.1f} MiB")
        f.close("finished")


def requests(n):
    for name in "tamis", "RFPDupeFilter":
        subprocess.run([sys.executable, __file__, name, "--keys", str(n)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", metavar="WHAT", choices=["calls", "batches", "threads", "memory", "requests", "tamis",
                                                         "RFPDupeFilter"])
    parser.add_argument("--keys", type=int, default=10**6)
    options = parser.parse_args()
    if options.what in globals() and options.what != "tamis":
        globals()[options.what](options.keys)
    else:
        see_requests(options.what, options.keys)


if __name__ == "__main__":
    main()
