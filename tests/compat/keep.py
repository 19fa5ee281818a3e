#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the saved filters that tests keep, for a new format: those that must load for ever (tests/compat/saved), and small
ones of every kind, layout, width and stage of growth, from which the fuzzers begin (tests/fuzz/corpus).

    keep.py LIBRARY SAVED CORPUS        the folders, as tests/compat/saved/1 and tests/fuzz/corpus
"""
import ctypes
import os
import pathlib
import struct
import sys
from ctypes import c_size_t, c_uint64, c_void_p

sys.dont_write_bytecode = True  # no files in the tree

import tamis_reader
from library import check, create, load, save, share
from test_reader import COUNTED_SIZE, KEPT_CUCKOO

BLOOM, CUCKOO, COUNTING = 1, 2, 3
BLOCKED, CLASSIC, WORD = 0, 1, 2
OWN_HASH = ctypes.CFUNCTYPE(c_uint64, c_void_p, c_void_p, c_size_t, c_uint64)
own_context = c_uint64(0x746D73)  # as in tests/fuzz/hostile.c
own_hash = OWN_HASH(lambda context, key, size, seed: tamis_reader.xxh3(ctypes.string_at(key, size), seed ^ own_context.value))

# Name: options, where growable is true if it is not said; how many hashes are added, how many of each fourth one, and how
# many are removed.
CORPUS = {
    "bloom-blocked-empty": (dict(capacity=50), 0),
    "bloom-blocked": (dict(capacity=100, stripes=1), 60),
    "bloom-blocked-low": (dict(capacity=50, fpp=1e-6, stripes=2), 50),
    "bloom-blocked-own": (dict(capacity=50, fpp=0.1, own=True), 20),
    "bloom-blocked-full": (dict(capacity=20, growable=False, stripes=4), 60),
    "bloom-sections": (dict(capacity=20, fpp=1e-9, growable=False), 10),
    "bloom-classic": (dict(layout=CLASSIC, capacity=100), 60),
    "bloom-classic-low": (dict(layout=CLASSIC, capacity=20, fpp=1e-12, growable=False), 10),
    "bloom-word": (dict(layout=WORD, capacity=50, fpp=0.05), 30),
    "bloom-word-fixed": (dict(layout=WORD, capacity=50, fpp=0.02, growable=False), 30),
    "bloom-word-full": (dict(layout=WORD, capacity=20, fpp=0.02, growable=False), 60),
    "bloom-layers": (dict(capacity=20, stripes=1), 100),
    "bloom-layers-sections": (dict(capacity=10, fpp=1e-6), 30),
    "bloom-layers-classic": (dict(layout=CLASSIC, capacity=10, fpp=0.1), 30),
    "bloom-layers-word": (dict(layout=WORD, capacity=20, fpp=0.05), 60),
    "bloom-layers-united": (dict(capacity=20, fpp=0.05), 10),
    "counting": (dict(kind=COUNTING, capacity=50), 30, 3, 5),
    "counting-fixed": (dict(kind=COUNTING, capacity=30, fpp=0.001, growable=False, stripes=2), 30),
    "counting-stuck": (dict(kind=COUNTING, capacity=20, fpp=0.1), 20, 20, 3),
    "cuckoo-empty": (dict(kind=CUCKOO, capacity=10), 0),
    "cuckoo-2-lanes": (dict(kind=CUCKOO, capacity=10, fpp=4e-8, stripes=1), 12),
    "cuckoo-3-lanes": (dict(kind=CUCKOO, capacity=10, fpp=1e-5), 12),
    "cuckoo-4-lanes": (dict(kind=CUCKOO, capacity=20, fpp=0.001, stripes=2), 20),
    "cuckoo-5-lanes": (dict(kind=CUCKOO, capacity=20, fpp=0.005), 20, 3),
    "cuckoo-6-lanes": (dict(kind=CUCKOO, capacity=20, fpp=0.02), 20),
    "cuckoo-8-lanes": (dict(kind=CUCKOO, capacity=20, fpp=0.2), 20),
    "cuckoo-own": (dict(kind=CUCKOO, capacity=20, own=True), 20),
    "cuckoo-copies": (dict(kind=CUCKOO, capacity=20), 20, 40, 3),
    "cuckoo-many-copies": (dict(kind=CUCKOO, capacity=20, fpp=0.001, stripes=1), 20, 5000),
    "cuckoo-split": (dict(kind=CUCKOO, capacity=60), 300),
    "cuckoo-widths": (dict(kind=CUCKOO, capacity=10, fpp=0.03), 400, 3),
    "cuckoo-joined": (dict(kind=CUCKOO, capacity=60), 600, 3, 450),
    "cuckoo-generations-2": (dict(kind=CUCKOO, capacity=1, fpp=0.05), 1500, 0, 1450),
    "cuckoo-generations-3": (dict(kind=CUCKOO, capacity=1, fpp=0.1, stripes=1), 1500, 0, 1000),
    "cuckoo-generations-copies": (dict(kind=CUCKOO, capacity=1, fpp=0.1), 1300, 3, 1200),
    "cuckoo-roots": (dict(kind=CUCKOO, capacity=1200, fpp=0.05), 1890),  # the second of three roots has split
    "cuckoo-united": (dict(kind=CUCKOO, capacity=20, fpp=0.05), 100),
    "cuckoo-fixed-empty": (dict(kind=CUCKOO, capacity=10, growable=False), 0),
    "cuckoo-fixed-2-lanes": (dict(kind=CUCKOO, capacity=10, fpp=2e-9, growable=False), 10),
    "cuckoo-fixed-4-lanes": (dict(kind=CUCKOO, capacity=20, fpp=1e-4, growable=False, stripes=1), 20),
    "cuckoo-fixed-8-lanes": (dict(kind=CUCKOO, capacity=50, fpp=0.1, growable=False), 50),
    "cuckoo-fixed-copies": (dict(kind=CUCKOO, capacity=30, growable=False, stripes=8), 30, 100, 5),
    "cuckoo-fixed-full": (dict(kind=CUCKOO, capacity=10, growable=False, stripes=32), 300),
    "counted": (dict(kind=CUCKOO, shared=True, capacity=40, growable=False), 30, 7, 3)}
UNITED = {"bloom-layers-united": (60, 0, 0), "cuckoo-united": (150, 0, 100)}  # with one of as many hashes
REMOVED = {"cuckoo-split": 0, "cuckoo-generations-2": 1450}  # while it is saved, eight hashes from this one on
# Name: options; periods, and hashes in each; copies of the last one of each.
WINDOWS = {
    "window-empty": (dict(window=4, capacity=20, growable=False), 2, 0, 1),
    "window-2-lanes": (dict(window=64, capacity=10, fpp=1e-5, growable=False), 3, 4, 1),
    "window-2-of-4-lanes": (dict(window=8, capacity=20, fpp=0.001, growable=False), 12, 3, 1),
    "window-8-lanes": (dict(window=1, capacity=40, fpp=0.4, growable=False), 4, 20, 1),
    "window-grown": (dict(window=3, capacity=5), 5, 20, 1),
    "window-cuckoo": (dict(kind=CUCKOO, window=8, capacity=20, fpp=0.001, growable=False), 12, 3, 3),
    "window-cuckoo-grown": (dict(kind=CUCKOO, window=3, capacity=5), 5, 20, 300)}
LIVE = {"bloom-live": (BLOCKED, False, 40), "bloom-live-full": (WORD, False, 70), "bloom-live-layers": (CLASSIC, True, 150)}


def hash_of(i):
    return (i * 0x9E3779B97F4A7C15 + 1) & tamis_reader.MASK64


class Kept:
    def __init__(self, library):
        self.tamis = load(library)

    def make(self, path=None, own=False, shared=False, **fields):
        """One that processes share, at a path or in memory; or another one."""
        fields = {"seed": 42, **fields}
        if own:
            fields |= dict(hash=ctypes.cast(own_hash, c_void_p), hash_context=ctypes.addressof(own_context))
        if path:
            path.unlink(missing_ok=True)
        return share(self.tamis, path, **fields) if path or shared else create(self.tamis, **fields)

    def filled(self, options, keys, copies=0, removed=0):
        filter_ = self.make(**options)
        for i in range(keys):
            for _ in range(copies if copies and i % 4 == 0 else 1):
                self.tamis.tamis_add_hash(filter_, hash_of(i))
        for i in range(removed):
            self.tamis.tamis_remove_hash(filter_, hash_of(i))
        return filter_

    def write_corpus(self, folder):
        for name, (options, *keys) in CORPUS.items():
            filter_ = self.filled(options, *keys)
            if name in UNITED:
                check(self.tamis.tamis_merge(filter_, self.filled(options, *UNITED[name])) == 0, "merge")
            data = save(self.tamis, filter_)
            (folder / f"{name}.tamis").write_bytes(data)
            if name in REMOVED:
                (folder / f"{name}-removed.tamis").write_bytes(with_removed(data, REMOVED[name]))
        for name, (options, periods, keys, copies) in WINDOWS.items():
            filter_ = self.make(**options)
            for i in range(periods * keys):
                if i and i % keys == 0:
                    self.tamis.tamis_advance(filter_)
                for _ in range(copies if i % keys == keys - 1 else 1):
                    self.tamis.tamis_add_hash(filter_, hash_of(i))
            (folder / f"{name}.tamis").write_bytes(save(self.tamis, filter_))
        for name, (layout, growable, keys) in LIVE.items():
            filter_ = self.make(folder / f"{name}.tamis", layout=layout, growable=growable, capacity=50, fpp=0.05,
                                max_bytes=growable << 15)
            for i in range(keys):
                self.tamis.tamis_add_unique_hash(filter_, hash_of(i))
            self.tamis.tamis_destroy(filter_)

    def add_keys(self, filter_, copied=0):
        """A hundred keys, of which each so many-th one is added again and again."""
        for i in range(100):
            if i % 40 == 39:
                self.tamis.tamis_advance(filter_)  # which does nothing without a window
            for _ in range(1 + (copied > 0 and i % copied == 0) * i):
                self.tamis.tamis_add(filter_, b"key %d" % i, len(b"key %d" % i))

    def write_saved(self, folder):
        """Version 1 of the format has these files; tests/compat/saved/sums names them."""
        for name, (growable, keys, copies, fpp) in KEPT_CUCKOO.items():
            filter_ = self.make(kind=CUCKOO, growable=bool(growable), capacity=growable or 1100, fpp=fpp, seed=12345, stripes=4)
            for i in [*range(keys), *list(range(keys // 10)) * copies]:
                self.tamis.tamis_add_hash(filter_, i)
            (folder / name).write_bytes(save(self.tamis, filter_))
        for name, kind, layout, fpp in (("blocked", BLOOM, BLOCKED, 0.01), ("classic", BLOOM, CLASSIC, 0.001),
                                        ("word", BLOOM, WORD, 0.01), ("counting", COUNTING, BLOCKED, 0.01)):
            for end, growable in (("", False), ("-growable", True)):
                filter_ = self.make(kind=kind, layout=layout, fpp=fpp, growable=growable, capacity=100, seed=12345)
                self.add_keys(filter_)
                (folder / f"bloom-{name}{end}.tamis").write_bytes(save(self.tamis, filter_))
        for name, kind in (("window", BLOOM), ("window-cuckoo", CUCKOO)):
            for end, window, fpp, growable, capacity in (("fixed", 4, 0.001, False, 100), ("grown", 3, 0.01, True, 5)):
                filter_ = self.make(kind=kind, window=window, fpp=fpp, growable=growable, capacity=capacity, seed=12345,
                                    window_renews=window % 2)
                self.add_keys(filter_, 7 if kind == CUCKOO else 0)
                (folder / f"{name}-{end}.tamis").write_bytes(save(self.tamis, filter_))
        counted = dict(kind=CUCKOO, growable=False, capacity=100, seed=12345)
        filter_ = self.make(shared=True, **counted)
        self.add_keys(filter_, 7)
        (folder / "counted.tamis").write_bytes(save(self.tamis, filter_))
        shared = folder.parent / "shared" / folder.name
        shared.mkdir(parents=True, exist_ok=True)
        for name, window, growable, capacity in (("bloom", 0, False, 100), ("layers", 0, True, 20), ("window", 3, False, 100)):
            filter_ = self.make(shared / f"{name}.tamis", window=window, growable=growable, capacity=capacity,
                                seed=12345, max_bytes=growable << 15, window_renews=window % 2)
            self.add_keys(filter_)
            self.tamis.tamis_destroy(filter_)
        filter_ = self.make(shared / "counted.tamis", **counted)
        self.add_keys(filter_, 7)
        self.tamis.tamis_destroy(filter_)
        check(os.path.getsize(shared / "counted.tamis") == COUNTED_SIZE, "size")
        os.truncate(shared / "counted.tamis", 3 * tamis_reader.ARRAY_ALIGNMENT)  # checkpoints follow


def with_removed(data, first):
    """As a save writes it while keys are removed: a block says that these are to be removed from what the file holds."""
    mix, trailer = tamis_reader.Mixing(42), bytearray(data[-tamis_reader.UNIT:])
    blocks, digest = tamis_reader.u64(trailer, 16), tamis_reader.u64(trailer, 48)
    payload = struct.pack("<8Q", *(mix(hash_of(first + i)) for i in range(8)))
    head = struct.pack("<IIQQ4Q", tamis_reader.Cuckoo.REMOVED, 0, len(payload), blocks, 0, 0, 0, 0)
    sum_ = tamis_reader.xxh3(payload, tamis_reader.xxh3(head))
    struct.pack_into("<QQ", trailer, 8, len(data) + 128, blocks + 1)
    struct.pack_into("<Q", trailer, 48, tamis_reader.xxh3(struct.pack("<Q", sum_), digest))
    struct.pack_into("<Q", trailer, 56, tamis_reader.xxh3(bytes(trailer[:56])))
    return data[:-tamis_reader.UNIT] + head + struct.pack("<Q", sum_) + payload + bytes(trailer)


def main(library, saved, corpus):
    kept = Kept(library)
    kept.write_saved(pathlib.Path(saved))
    kept.write_corpus(pathlib.Path(corpus))


if __name__ == "__main__":
    main(*sys.argv[1:])
