#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The reader in Python gives the answers of the library, false positives too.  The files that are kept
in tests/compat/saved load in both, and the library saves them again to the same bytes, small ones packed; those that processes share
it opens, and changes a copy.  They are the files that tests/compat/saved/sums names, unchanged.

    test_reader.py LIBRARY      (keep.py writes the files)
"""
import hashlib
import itertools
import os
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True  # no files in the tree

import tamis_reader
from library import check, create, load, load_file, save, share

SAVED = pathlib.Path(__file__).resolve().parent / "saved"
KEYS, ABSENT = 300, 3000 if os.environ.get("TAMIS_LONG") else 500
CHANGES = 500 if os.environ.get("TAMIS_LONG") else 100  # of a file, each of which is noticed


def key(i):
    """Keys of many lengths: XXH3 treats short and long ones differently."""
    return (b"key %d " % i) * (1 + i % 7 * i % 41)


def check_answers(tamis, filter_, reader, what):
    """How many keys are found."""
    found = 0
    for i in range(KEYS + ABSENT):
        expected = tamis.tamis_contains(filter_, key(i), len(key(i)))
        check(reader.contains(key(i)) == expected, f"{what}: key {i}")
        check(reader.contains_hash(i) == tamis.tamis_contains_hash(filter_, i), f"{what}: hash {i}")
        found += expected
        if isinstance(reader.filter, tamis_reader.Window):
            copies = tamis.tamis_count(filter_, key(i), len(key(i)))
            check(reader.filter.count_hash(reader.container.hash(key(i), reader.container.seed)) == copies,
                  f"{what}: copies of key {i}")
    return found


def check_changes(data, places, what):
    """A change at each of these places is noticed."""
    for at in places:
        try:
            tamis_reader.Filter(data[:at] + bytes([data[at] ^ 16]) + data[at + 1:])
        except (tamis_reader.Corrupt, tamis_reader.Unsupported):
            continue
        check(False, f"{what}: accepts a change at {at}")


def compare(tamis, filter_, what):
    data = save(tamis, filter_)
    reader = tamis_reader.Filter(data + b"more")
    check(reader.size == len(tamis_reader.unpacked(data)), f"{what}: size")
    found = check_answers(tamis, filter_, reader, what)
    check_changes(data, range(0, len(data), max(1, len(data) // CHANGES)), what)
    print(f"{what}: {found} of {KEYS + ABSENT} keys found, {len(data)} bytes")


def compare_live(tamis, folder):
    """Filters that processes share: the file as it is while they are in use."""
    path = pathlib.Path(folder, "shared.tamis")
    for layout, fpp, growable, capacity in itertools.product(range(3), (0.05, 0.003), (False, True), (KEYS + 100, 60)):
        what = f"live, layout {layout}, fpp {fpp}, growable {growable}, {capacity}"
        filter_ = share(tamis, path, layout=layout, fpp=fpp, growable=growable, capacity=capacity, max_bytes=growable << 20)
        refused = sum(tamis.tamis_add(filter_, key(i), len(key(i))) != 0 for i in range(KEYS))
        data = path.read_bytes()
        reader = tamis_reader.Filter(data)
        check(bool(refused) == (not growable and capacity < KEYS), f"{what}: {refused} refused")
        check((len(reader.filter.layers) > 1) == (growable and capacity < KEYS), f"{what}: layers")
        found = check_answers(tamis, filter_, reader, what)
        check_changes(data, range(0, tamis_reader.HEADER, 32), what)
        print(f"{what}: {found} of {KEYS + ABSENT} keys found, {reader.size} bytes of {len(data)}")
        tamis.tamis_destroy(filter_)
        path.unlink()
    for (kind, window), (fpp, capacity), stripes in itertools.product(
            ((1, 4), (2, 0)), ((0.2, 500), (0.01, 500), (1e-4, 500), (1e-5, 40000)), (1, 64)):
        what = f"live, kind {kind}, window {window}, fpp {fpp}, {capacity}, {stripes} stripes"
        filter_ = share(tamis, path, kind=kind, window=window, fpp=fpp, growable=False, capacity=capacity, stripes=stripes)
        for i in range(KEYS):
            if i % 70 == 69:
                tamis.tamis_advance(filter_)
            for _ in range(1 + i % 6 * (kind == 2)):
                tamis.tamis_add(filter_, key(i), len(key(i)))  # one with six copies gets no further one
        check_answers(tamis, filter_, tamis_reader.Filter(path.read_bytes()), what)
        compare(tamis, filter_, f"saved, {what}")
        tamis.tamis_destroy(filter_)
        path.unlink()


def options_of_all_sorts():
    for layout, rates in enumerate([(0.9, 0.3, 0.15, 0.05, 0.01, 0.001, 1e-4, 1e-6, 1e-10),
                                    (0.6, 0.05, 1e-3, 1e-6),
                                    (0.6, 0.2, 0.1, 0.03, 0.01, 0.003)]):
        for fpp, growable in itertools.product(rates, (False, True)):
            yield dict(layout=layout, fpp=fpp, growable=growable, capacity=KEYS)
    for fpp, growable in itertools.product((0.6, 0.3, 0.1, 0.01, 1e-3, 1e-4), (False, True)):
        yield dict(kind=3, fpp=fpp, growable=growable, capacity=KEYS)
    for fpp, (growable, capacity) in itertools.product((0.03, 0.01, 0.001, 1e-6), ((False, KEYS), (True, KEYS), (True, 10))):
        yield dict(kind=2, fpp=fpp, growable=growable, capacity=capacity)
    for (window, fpp), (growable, capacity), kind in itertools.product(
            ((1, 0.4), (2, 0.15), (4, 0.05), (1, 0.01), (4, 0.001), (8, 0.001), (24, 1e-4), (64, 1e-5)),
            ((False, KEYS + 100), (True, KEYS + 100), (True, 40)), (1, 2)):
        yield dict(kind=kind, window=window, window_renews=window % 2, fpp=fpp, growable=growable, capacity=capacity)


# Name: capacity if it is growable, hashes from 0 on, copies of the first tenth of these, fpp.  Of the one with copies that has
# grown, segments have lanes of both widths.
KEPT_CUCKOO = {"cuckoo-fixed.tamis": (None, 1000, 0, 0.01), "cuckoo-fixed-copies.tamis": (None, 1000, 5, 0.01),
               "cuckoo-small.tamis": (100, 90, 5, 0.01), "cuckoo-grown.tamis": (100, 5000, 0, 0.01),
               "cuckoo-grown-copies.tamis": (100, 5000, 5, 0.03), "cuckoo-generations.tamis": (1, 1500, 0, 0.1)}


COUNTED_SIZE = 151552  # of a counted table that processes share, which is kept without the room for checkpoints


def check_copies(tamis, filter_, path):
    """Of a counted table: keep.py has added copies of some keys, of which a key has six at most."""
    reader = tamis_reader.Filter(path.read_bytes())
    for i in range(100):
        name, copies = b"key %d" % i, min(1 + (i % 7 == 0) * i, 6)
        check(tamis.tamis_count(filter_, name, len(name)) == copies, f"{path}: copies of key {i}")
        check(reader.filter.count_hash(reader.container.hash(name, reader.container.seed)) == copies,
              f"{path}: copies of key {i} by the reader")


def check_kept_shared(tamis, folder):
    """A later version opens what processes share, has its keys, and goes on adding to it."""
    def has(filter_, i):
        return tamis.tamis_contains(filter_, b"key %d" % i, len(b"key %d" % i))

    for path in sorted(SAVED.glob("shared/*/*.tamis")):
        copy = os.path.join(folder, path.name)
        shutil.copyfile(path, copy)
        if path.name == "counted.tamis":
            os.truncate(copy, COUNTED_SIZE)
        loaded, filter_ = load_file(tamis, copy), share(tamis, copy)
        check(all(has(loaded, i) and has(filter_, i) for i in range(100)), f"{path}: keys")
        check(any(not has(filter_, i) for i in range(100, 110)), f"{path}: other keys")
        reader = tamis_reader.Filter(path.read_bytes())
        check(all(reader.contains(b"key %d" % i) == has(filter_, i) for i in range(KEYS)), f"{path}: the reader")
        if path.name == "counted.tamis":
            check_copies(tamis, loaded, path)
        for i in range(100, 110):
            tamis.tamis_add(filter_, b"key %d" % i, len(b"key %d" % i))  # one that is full may refuse it
        check(all(has(filter_, i) for i in range(100)), f"{path}: keys after adds")
        tamis.tamis_destroy(loaded), tamis.tamis_destroy(filter_)


def check_sums():
    """No file that is kept has changed, is gone, or is not named."""
    named = dict(line.split("  ")[::-1] for line in (SAVED / "sums").read_text().splitlines())
    found = {path.relative_to(SAVED).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
             for path in SAVED.rglob("*.tamis")}
    for name in sorted(named.keys() | found.keys()):
        check(named.get(name) == found.get(name), f"tests/compat/saved/{name} is not what tests/compat/saved/sums says")


def check_kept(tamis):
    for path in sorted(SAVED.glob("*/*.tamis")):
        filter_ = load_file(tamis, path)
        if path.name in KEPT_CUCKOO:  # their keys are hashes
            check(all(tamis.tamis_contains_hash(filter_, i) for i in range(KEPT_CUCKOO[path.name][1])), f"{path}: keys")
        else:
            check(all(tamis.tamis_contains(filter_, b"key %d" % i, len(b"key %d" % i)) for i in range(100)), f"{path}: keys")
        if path.name == "counted.tamis":
            check_copies(tamis, filter_, path)
        check(tamis_reader.unpacked(save(tamis, filter_)) == path.read_bytes(), f"{path}: saved again")
        compare(tamis, filter_, path.name)
        tamis.tamis_destroy(filter_)


def main(path):
    tamis = load(path)
    check_sums()
    check_kept(tamis)
    with tempfile.TemporaryDirectory() as folder:
        check_kept_shared(tamis, folder)
        compare_live(tamis, folder)
    for fields in options_of_all_sorts():
        filter_ = create(tamis, **fields)
        for i in range(KEYS + 100):
            if i % 70 == 69:
                tamis.tamis_advance(filter_)  # which does nothing without a window
            for _ in range(1 + (fields.get("kind") == 2 and i % 3)):
                tamis.tamis_add(filter_, key(i), len(key(i)))
        compare(tamis, filter_, str(fields))
        tamis.tamis_destroy(filter_)


if __name__ == "__main__":
    main(*sys.argv[1:])
