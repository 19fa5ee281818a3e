#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads saved filters, as docs/format.md describes them, without the library.

    tamis_reader.py FILE [KEY ...]      prints the header, and whether each key is in

It needs Python's standard library and the module xxhash.  It checks all that the format says, but the
figures of the header, and is not made for speed.
"""
import struct
import sys

import xxhash

MASK64 = 2**64 - 1
CHUNK = 1 << 20
UNIT = 64
HEADER = 512
ARRAY_ALIGNMENT = 4096
OPTIONAL = 1 << 31
SUMS = 1


class Corrupt(Exception):
    pass


class Unsupported(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Corrupt(what)


def xxh3(data, seed=0):
    return xxhash.xxh3_64_intdigest(data, seed=seed)


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def f64(data, at):
    return struct.unpack_from("<d", data, at)[0]


# ---- hashes ----

MULTIPLIER = 0xD1342543DE82EF95


def spread(x):
    return (x ^ x >> 32) * MULTIPLIER & MASK64


def fold(x, key0, key1):
    product = 0x3C79AC492BA7B653 * (x ^ key0)
    return (product >> 64 ^ product & MASK64) + key1 & MASK64


class Mixing:
    def __init__(self, seed):
        self.keys = (spread(fold(seed, 0x9E3779B97F4A7C15, 0)), spread(fold(seed, 0x3C6EF372FE94F82A, 0)))

    def __call__(self, hash_):
        return fold(hash_, *self.keys)


def to_range(hash_, n):
    return hash_ * n >> 64


def rotate_left(x, by):
    by %= 64
    return (x << by | x >> (64 - by)) & MASK64


# ---- the container ----

class Block:
    def __init__(self, kind, meanings, payload):
        self.type, self.meanings, self.payload = kind, meanings, payload


class Container:
    """Reads a filter from bytes, part by part."""

    def __init__(self, data, own_hash=None):
        """`own_hash(key, seed)` is the filter's own hash function, if it has one."""
        self.data, self.at, self.blocks, self.digest = data, 0, 0, 0
        header = self.take(HEADER)
        need(header[:8] == b"\x89TAMIS\r\n", "magic")
        need(xxh3(header[:-8]) == u64(header, HEADER - 8), "sum of the header")
        if u32(header, 8) > 1 or u64(header, 16):
            raise Unsupported("a later version")
        need(u32(header, 8) == 1 and u32(header, 12) == HEADER, "version")
        self.add_sum(u64(header, HEADER - 8))
        self.kind, self.hash_identity = u32(header, 32), u32(header, 36)
        self.growable, self.seed, self.probe = u32(header, 44), u64(header, 48), u64(header, 56)
        self.capacity, self.fpp, self.max_bytes = u64(header, 64), f64(header, 72), u64(header, 80)
        self.stripes, self.layout = u32(header, 88), u32(header, 92)
        self.figures = struct.unpack_from("<14Q", header, 96)
        self.geometry = struct.unpack_from("<31Q", header, 256)
        need(self.hash_identity in (1, 2) and u32(header, 40) == 1, "identity of the hash")
        need(self.growable <= 1 and self.capacity and 0 < self.fpp < 1 and self.seed, "options")
        need(not any(header[208:256]), "reserved")
        if self.hash_identity == 2 and own_hash is None:
            raise Unsupported("a hash function of the user's")
        self.hash = own_hash if self.hash_identity == 2 else xxh3
        need(self.hash(b"tamis probe", self.seed) == self.probe, "hash of the probe")

    def add_sum(self, value):
        self.digest = xxh3(struct.pack("<Q", value), self.digest)

    def take(self, size):
        need(self.at + size <= len(self.data), "truncated")
        self.at += size
        return self.data[self.at - size:self.at]

    def block(self):
        """The next block, or None before the trailer."""
        while self.data[self.at:self.at + 8] != b"TAMISEND":
            head = self.take(UNIT)
            size = u64(head, 8)
            need(u32(head, 4) == 0 and size <= CHUNK and u64(head, 16) == self.blocks, "head of a block")
            payload = self.take(size)
            need(not any(self.take(-size % UNIT)), "padding of a block")
            sum_ = xxh3(payload, xxh3(head[:56]))
            need(sum_ == u64(head, 56), "sum of a block")
            self.blocks += 1
            self.add_sum(sum_)
            if not u32(head, 0) & OPTIONAL:
                return Block(u32(head, 0), struct.unpack_from("<4Q", head, 24), payload)
        return None

    def array(self, size):
        need(not any(self.take(-self.at % ARRAY_ALIGNMENT)), "padding of an array")
        begin = self.at
        array = self.take(size)
        sums = [xxh3(array[i:i + CHUNK], i // CHUNK) for i in range(0, size, CHUNK)]
        done = 0
        while done < len(sums):
            block = self.block()
            n = min(len(sums) - done, CHUNK // 8)
            need(block and block.type == SUMS and block.meanings == (begin, size, done, 0), "sums")
            need(block.payload == struct.pack(f"<{n}Q", *sums[done:done + n]), "sum of a chunk")
            done += n
        return array

    def end(self):
        """The totals of the trailer."""
        need(self.block() is None, "a block too many")
        trailer = self.take(UNIT)
        need(xxh3(trailer[:56]) == u64(trailer, 56), "sum of the trailer")
        need(u64(trailer, 8) == self.at and u64(trailer, 16) == self.blocks, "length")
        need(u64(trailer, 48) == self.digest, "sum over all sums")
        return struct.unpack_from("<3Q", trailer, 24)


# ---- Bloom filters ----

class Bloom:
    BLOCKED, CLASSIC, WORD, MARKED = range(4)
    STEPS = (2, 3, 4, 2)
    BLOCKED_SHAPES = {(1, 1), (1, 2), (1, 3), (2, 2), (3, 2), (3, 3), (4, 3), (5, 3)}

    def __init__(self, container):
        layout, self.probes, self.bits_per_probe, lines = container.geometry[:4]
        need(not any(container.geometry[5:]), "geometry")
        shape = (self.probes, self.bits_per_probe)
        need(shape in self.BLOCKED_SHAPES if layout == self.BLOCKED else
             1 <= shape[0] <= 64 and shape[1] == 1 if layout == self.CLASSIC else
             layout <= self.MARKED and shape[0] == 1 and 1 <= shape[1] <= 7, "shape")
        need(layout == (self.MARKED if container.layout == 2 and not container.growable
                        else container.layout), "layout")
        need(0 < lines < 2**41, "lines")
        self.layout, self.words, self.mix = layout, lines * 8, Mixing(container.seed)
        self.array = container.array(lines * 64)
        self.keys, full, united = container.end()
        all_bits = int.from_bytes(self.array, "little")
        marks = 0
        if layout == self.MARKED:
            mark_bits = int.from_bytes((b"\0" * 7 + b"\x80") * self.words, "little")
            marks = all_bits & mark_bits
        need(self.keys <= bin(all_bits ^ marks).count("1") and united <= 512 * lines, "counts")
        need(full <= (not container.growable) and (full or not marks), "full")

    def masks(self, hash_):
        """The words of a key, and its bits in them."""
        h = self.mix(hash_)
        if self.layout == self.CLASSIC:
            product = h
            for _ in range(self.probes):
                product = product * MULTIPLIER & MASK64
                position = to_range(product, self.words * 64)
                yield position // 64, 1 << (position + 32) % 64
            return
        word = to_range(h * MULTIPLIER & MASK64, self.words)
        if self.layout == self.BLOCKED:
            pattern = 1 << 32
            if self.bits_per_probe > 1:
                pattern |= 1 << (h >> 30) % 32
            if self.bits_per_probe > 2:
                pattern |= 1 << 32 + (h >> 35 | 1) % 32
            for i in range(self.probes):
                yield word, rotate_left(pattern, h >> 6 * i)
                if i + 1 < self.probes:
                    word ^= (h >> 62) + self.STEPS[i]
            return
        mask = 0
        for i in range(self.bits_per_probe):
            mask = rotate_left(mask | 1, h >> 6 * i)
        if self.layout == self.MARKED and mask >> 63:
            mask = mask & ~(1 << 63) | 1 << to_range(h, 63)
        yield word, mask

    def contains_hash(self, hash_):
        return all(u64(self.array, word * 8) & mask == mask for word, mask in self.masks(hash_))


KINDS = {1: Bloom}


# ---- any filter ----

class Filter:
    def __init__(self, data, own_hash=None):
        self.container = Container(data, own_hash)
        need(self.container.kind in KINDS, "kind")
        self.filter = KINDS[self.container.kind](self.container)
        self.size = self.container.at  # of the filter; more may follow

    def contains(self, key):
        return self.contains_hash(self.container.hash(key, self.container.seed))

    def contains_hash(self, hash_):
        return self.filter.contains_hash(hash_)


def main(path, *keys):
    with open(path, "rb") as file:
        data = file.read()
    try:
        f = Filter(data)
    except (Corrupt, Unsupported) as error:
        sys.exit(f"{path}: {type(error).__name__}: {error}")
    c = f.container
    print(f"kind {c.kind}, capacity {c.capacity}, fpp {c.fpp}, {c.figures[0]} keys, {f.size} bytes")
    for key in keys:
        print(f"{key}: {'in' if f.contains(key.encode()) else 'not in'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
