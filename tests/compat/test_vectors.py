#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The filters in tests/compat/vectors have the same answers in every runtime, false positives among them.  Here: the library,
by its functions for C, and the reader of files that is written in Python.  js/tests and python/tests ask the others.

    test_vectors.py LIBRARY
    test_vectors.py LIBRARY --keep      writes the vectors anew, for a new format

tests/compat/vectors/vectors.json has the keys, in hexadecimal digits with a space between two; and for each file what
tamis_count() says of each key, which of the last keys an add finds to be new, and the SHA-256 of the file that is saved
after these adds.
"""
import hashlib
import json
import pathlib
import sys

sys.dont_write_bytecode = True  # no files in the tree

import tamis_reader
from library import check, create, load, load_file, save

VECTORS = pathlib.Path(__file__).resolve().parent / "vectors"
ADDED, ALL, TWICE, LATER = 150, 450, 20, 30
CUCKOO, COUNTING = 2, 3
# name: kind, capacity, fpp, layout, growable, window
FILTERS = {
    "blocked": (1, 150, 0.3, 0, True, 0), "classic": (1, 200, 0.2, 1, False, 0), "word": (1, 200, 0.2, 2, False, 0),
    "layers": (1, 20, 0.3, 0, True, 0), "low": (1, 200, 1e-7, 0, False, 0), "cuckoo": (CUCKOO, 30, 0.2, 0, True, 0),
    "cuckoo-fixed": (CUCKOO, 300, 0.2, 0, False, 0), "counting": (COUNTING, 200, 0.2, 0, True, 0),
    "window": (1, 100, 0.2, 0, True, 3), "window-cuckoo": (CUCKOO, 300, 0.2, 0, False, 2)}


def key(i):
    """Of all lengths that XXH3 tells apart, the empty one, and text that is not ASCII."""
    if i == 0:
        return b""
    return ("schlüssel %d " % i).encode() * (1 + i % 5 * (i % 7) * (i % 11) // 10)


def make(tamis, kind, capacity, fpp, layout, growable, window):
    filter_ = create(tamis, kind=kind, capacity=capacity, fpp=fpp, layout=layout, growable=growable, window=window, seed=7)
    for i in range(ADDED):
        check(tamis.tamis_add(filter_, key(i), len(key(i))) == 0, "add")
        if window and i % 30 == 29:
            tamis.tamis_advance(filter_)
    for i in range(TWICE):
        check(tamis.tamis_add(filter_, key(ADDED - 1 - i), len(key(ADDED - 1 - i))) == 0, "add")
    return filter_


def counts(tamis, filter_, keys):
    return [tamis.tamis_count(filter_, k, len(k)) for k in keys]


def added(tamis, filter_, keys):
    """What add_unique says of the last keys, and the sum of the file then."""
    new = "".join(str(int(tamis.tamis_add_unique(filter_, k, len(k)) == 0)) for k in keys[-LATER:])
    return new, hashlib.sha256(save(tamis, filter_)).hexdigest()


def keep(tamis):
    keys = [key(i) for i in range(ALL)]
    vectors = {"keys": " ".join(k.hex() for k in keys), "later": LATER, "filters": {}}
    for name, options in FILTERS.items():
        filter_ = make(tamis, *options)
        (VECTORS / f"{name}.tamis").write_bytes(save(tamis, filter_))
        known = {"kind": ["bloom", "cuckoo", "counting_bloom"][options[0] - 1], "window": options[5],
                 "counts": "".join(map(str, counts(tamis, filter_, keys)))}
        known["new"], known["sha256"] = added(tamis, filter_, keys)
        vectors["filters"][name] = known
        tamis.tamis_destroy(filter_)
    (VECTORS / "vectors.json").write_text(json.dumps(vectors, indent=1) + "\n")


def compare(tamis, name, known, keys):
    path = VECTORS / f"{name}.tamis"
    filter_, reader = load_file(tamis, path), tamis_reader.Filter(path.read_bytes())
    expected = [int(c) for c in known["counts"]]
    check(counts(tamis, filter_, keys) == expected, f"{name}: the library's counts")
    check([reader.contains(k) for k in keys] == [c > 0 for c in expected], f"{name}: the reader's answers")
    check(added(tamis, filter_, keys) == (known["new"], known["sha256"]), f"{name}: what the library adds")
    tamis.tamis_destroy(filter_)
    return sum(c > 0 for c in expected[ADDED:])


def main(library, *options):
    tamis = load(library)
    if options == ("--keep",):
        keep(tamis)
    vectors = json.loads((VECTORS / "vectors.json").read_text())
    keys = [bytes.fromhex(k) for k in vectors["keys"].split(" ")]
    false_positives = {name: compare(tamis, name, known, keys) for name, known in vectors["filters"].items()}
    check(sum(n > 0 for n in false_positives.values()) >= len(false_positives) - 1, f"few false positives: {false_positives}")


if __name__ == "__main__":
    main(*sys.argv[1:])
