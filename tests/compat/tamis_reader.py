#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads saved filters, as docs/reference/format.md describes them, without the library.

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
SUMS, COUNTS = 1, 19
COUNTS_WORDS = 4096  # for whose counts there is a block
# Required features: a Bloom filter has several layers, or is a sliding window, or processes share it, or a counted table.
LAYERS, WINDOW, LIVE, COUNTED = 1, 2, 4, 8


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

def numbers(payload):
    values, value, bits = [], 0, 0
    for byte in payload:
        value |= (byte & 0x7f) << bits
        bits += 7
        if byte < 0x80:
            need(byte or bits == 7, "a number ends with 0")
            values.append(value)
            value = bits = 0
        else:
            need(bits < 56, "a number is too long")
    need(not bits, "a number is incomplete")
    return values


def unpacked(data):
    """The bytes of a packed filter, after which anything may follow, and any other as it is."""
    if data[:8] != b"\x89TAMISp\n":
        return data
    out, at = bytearray(), 8
    while at < len(data) and not (out[-64:-56] == b"TAMISEND" and u64(out, len(out) - 56) == len(out)):
        if data[at] < 128:
            out += data[at + 1:at + 2 + data[at]]
            need(at + 2 + data[at] <= len(data), "a run is cut")
            at += 2 + data[at]
        else:
            need(at + 1 < len(data), "a run is cut")
            out += bytes((data[at] & 127) * 256 + data[at + 1] + 1)
            at += 2
        need(len(out) <= 1 << 14, "a packed file is too long")
    need(out[:8] != data[:8] and not (len(out) > 16 and out[16] & LIVE), "what is packed")
    return bytes(out)


class Block:
    def __init__(self, kind, meanings, payload):
        self.type, self.meanings, self.payload = kind, meanings, payload


class Container:
    """Reads a filter from bytes, part by part."""

    def __init__(self, data, own_hash=None):
        """`own_hash(key, seed)` is the filter's own hash function, if it has one."""
        self.data, self.at, self.blocks, self.digest = unpacked(data), 0, 0, 0
        header = self.take(HEADER)
        need(header[:8] == b"\x89TAMIS\r\n", "magic")
        need(xxh3(header[:-8]) == u64(header, HEADER - 8), "sum of the header")
        self.features = u64(header, 16)
        known = {1: LAYERS | WINDOW | LIVE,
                 2: COUNTED | LIVE if self.features & COUNTED else WINDOW}.get(u32(header, 32), 0)
        if u32(header, 8) > 1 or self.features & ~known:
            raise Unsupported("a later version")
        need(u32(header, 8) == 1 and u32(header, 12) == HEADER, "version")
        self.add_sum(u64(header, HEADER - 8))
        self.kind, self.hash_identity = u32(header, 32), u32(header, 36)
        self.growable, self.seed, self.probe = u32(header, 44), u64(header, 48), u64(header, 56)
        self.capacity, self.fpp, self.max_bytes = u64(header, 64), f64(header, 72), u64(header, 80)
        self.stripes, self.layout = u32(header, 88), u32(header, 92)
        self.figures = struct.unpack_from("<15Q", header, 96)
        self.geometry = struct.unpack_from("<31Q", header, 256)
        need(self.hash_identity in (1, 2) and u32(header, 40) == 1, "identity of the hash")
        need(self.growable <= 1 and self.capacity and 0 < self.fpp < 1 and self.seed and
             self.stripes <= 4096, "options")
        need(not any(header[216:256]), "reserved")
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

    def next_block(self):
        head = self.take(UNIT)
        size = u64(head, 8)
        need(u32(head, 4) == 0 and size <= CHUNK and u64(head, 16) == self.blocks, "head of a block")
        payload = self.take(size)
        need(not any(self.take(-size % UNIT)), "padding of a block")
        sum_ = xxh3(payload, xxh3(head[:56]))
        need(sum_ == u64(head, 56), "sum of a block")
        self.blocks += 1
        self.add_sum(sum_)
        return Block(u32(head, 0), struct.unpack_from("<4Q", head, 24), payload)

    def next_type(self):
        """The type of the next block, after those that may be passed over; None before the trailer."""
        while self.data[self.at:self.at + 8] != b"TAMISEND":
            need(self.at + UNIT <= len(self.data), "truncated")
            if not u32(self.data, self.at) & OPTIONAL:
                return u32(self.data, self.at)
            self.next_block()
        return None

    def block(self):
        """The next block, or None before the trailer."""
        return None if self.next_type() is None else self.next_block()

    def row(self, kind, table, n):
        """Numbers that belong to a table."""
        row = []
        while len(row) < n:
            block, part = self.block(), min(n - len(row), CHUNK // 8)
            need(block and block.type == kind and block.meanings == (table, len(row), 0, 0) and
                 len(block.payload) == 8 * part, "row")
            row += struct.unpack(f"<{part}Q", block.payload)
        return row

    def counts(self, table, words, width):
        """The counts of a table, by lane."""
        counts, end, lanes = {}, 0, 64 // width
        while self.next_type() == COUNTS:
            block = self.block()
            first, values = block.meanings[1], numbers(block.payload)
            need(block.meanings == (table, first, 0, 0) and first % COUNTS_WORDS == 0 and end <= first < len(words) and
                 values and len(values) % 2 == 0, "counts")
            end, at = min(first + COUNTS_WORDS, len(words)), first * lanes - 1
            for skipped, count in zip(values[::2], values[1::2]):
                at += skipped + 1
                need(at < end * lanes and words[at // lanes] >> at % lanes * width & (1 << width) - 1, "lane")
                need(0 < count < 2**53, "count")
                counts[at] = count
        return counts

    def array(self, size):
        need(not any(self.take(-self.at % ARRAY_ALIGNMENT)), "padding of an array")
        begin = self.last_array = self.at
        array = self.take(size)
        if self.features & LIVE:
            return array
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

class Layer:
    """The bits of a Bloom filter, or of one of its layers; or counters."""
    BLOCKED, CLASSIC, WORD, MARKED, COUNTING = range(5)
    STEPS = (2, 3, 4, 2)
    BLOCKED_SHAPES = {(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3), (4, 3)}
    COUNTING_SHAPES = {(1, 1), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2)}

    def __init__(self, container, geometry):
        self.layout, self.probes, self.bits_per_probe, lines, self.sections = geometry
        shape = (self.probes, self.bits_per_probe)
        several = self.layout <= self.CLASSIC
        need(1 <= self.sections <= (32 if self.layout == self.CLASSIC else 5 if several else 1), "sections")
        need(shape == (1, 2) if self.layout == self.CLASSIC else
             shape == (3, 3) if self.sections > 1 else
             shape in self.BLOCKED_SHAPES if self.layout == self.BLOCKED else
             shape in self.COUNTING_SHAPES if self.layout == self.COUNTING else
             self.layout <= self.MARKED and shape[0] == 1 and 1 <= shape[1] <= 7, "shape")
        need(0 < lines < 2**41, "lines")
        self.words, self.mix = lines * 8, Mixing(container.seed)
        self.section = self.words // self.sections
        if self.sections > 1 and self.probes > 1:
            self.section -= self.section % 8
        need(self.section, "words of a section")
        if not container.features & LIVE:
            self.array = container.array(lines * 64)

    def check(self, keys, united, full):
        if self.layout == self.COUNTING:
            self.check_counters(keys, full, united)
            return
        all_bits = int.from_bytes(self.array, "little")
        marks = 0
        if self.layout == self.MARKED:
            mark_bits = int.from_bytes((b"\0" * 7 + b"\x80") * self.words, "little")
            marks = all_bits & mark_bits
        need(keys <= bin(all_bits ^ marks).count("1") and united <= 64 * self.words, "counts")
        need(full or not marks, "full")

    def check_counters(self, copies, full, rest):
        counters = [byte >> shift & 15 for byte in self.array for shift in (0, 4)]
        of_key = self.probes * self.bits_per_probe
        need(15 in counters or sum(counters) == copies * of_key + rest, "copies")
        need(not full and copies < 2**62 and rest <= 15 * len(counters), "counts")

    def masks(self, hash_):
        """The words of a key, and its bits in them: of a counter, the lowest one."""
        h = self.mix(hash_)
        for section in range(self.sections):
            for word, mask in self.masks_in_section(h):
                yield section * self.section + word, mask
            h = (h ^ h >> 32) * MULTIPLIER & MASK64

    def masks_in_section(self, h):
        word = to_range(h * MULTIPLIER & MASK64, self.section)
        if self.layout in (self.BLOCKED, self.CLASSIC, self.COUNTING):
            width = 4 if self.layout == self.COUNTING else 1
            pattern = 1 << 32
            if self.bits_per_probe > 1:
                pattern |= 1 << (h >> 30) % (32 // width) * width
            if self.bits_per_probe > 2:
                pattern |= 1 << 32 + (h >> 35 | 1) % 32
            for i in range(self.probes):
                yield word, rotate_left(pattern, (h >> 6 * i) % (64 // width) * width)
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
        return all(self.positions(u64(self.array, word * 8)) & mask == mask for word, mask in self.masks(hash_))

    def positions(self, word):
        """The bits that are set or, of counters that are not 0, their lowest bits."""
        if self.layout == self.COUNTING:
            word = (word | word >> 1 | word >> 2 | word >> 3) & 0x1111111111111111
        return word


class Bloom:
    LAYER = 16
    TALLY = 33 * 64

    def __init__(self, container):
        live, further = container.features & LIVE, container.geometry[6]
        need(not any(container.geometry[7:]), "geometry")
        need(further < (64 if container.growable and container.kind == 1 else 1), "number of layers")
        need(not further or container.features & LAYERS, "feature")
        if container.features & LAYERS and not further:
            raise Unsupported("a later version")
        first = Layer(container, container.geometry[:5])
        need(first.layout == (first.COUNTING if container.kind == 3 and not container.layout
                              else first.MARKED if container.layout == 2 and not container.growable
                              else container.layout), "layout")
        most = container.geometry[5]
        is_limited = container.kind == 1 and not container.growable
        need(bool(most) == is_limited and most <= first.words * 64, "most keys")
        self.layers = [first]
        for number in range(2, further + 2):
            block = container.block()
            need(block and block.type == self.LAYER and len(block.payload) == 56, "layer")
            need(block.meanings[0] == number and block.meanings[3] == 0, "layer's number")
            *geometry, capacity = struct.unpack_from("<6Q", block.payload)
            need(geometry[0] <= Layer.CLASSIC and 0 < capacity < 2**50, "layer's capacity")
            need(0 < f64(block.payload, 48) < 1, "layer's rate")
            layer = Layer(container, geometry)
            self.layers.append(layer)
            if live:
                continue
            layer.check(block.meanings[1], block.meanings[2], 0)
        if live:
            self.read_live(container)
            return
        self.keys, full, united = container.end()
        need(full <= (not container.growable), "full")
        first.check(self.keys, united, full)

    def read_live(self, container):
        need(not any(container.take(-container.at % ARRAY_ALIGNMENT)), "padding of the tallies")
        tallies = [container.take(self.TALLY) for _ in self.layers]
        is_open = u64(tallies[0], 0) // 2
        del self.layers[is_open if 1 <= is_open <= len(self.layers) else 1:]
        for layer in self.layers:
            layer.array = container.array(layer.words * 8)
        self.keys = sum(u64(tallies[0], 64 * i) for i in range(1, 33)) & MASK64

    def contains_hash(self, hash_):
        return any(layer.contains_hash(hash_) for layer in self.layers)


# ---- sliding windows ----

class WindowLayer:
    SHAPES = ((8, 8), (9, 7), (10, 6), (12, 5), (16, 4), (16, 2), (21, 3), (32, 2))
    LEAST_BITS = (6, 6, 6, 6, 8, 10, 10, 10)
    COPIED = 33

    def __init__(self, window, container, numbers, number):
        shape, self.segments, self.half, self.capacity, self.index = numbers
        need(shape < len(self.SHAPES), "shape")
        self.width, self.lanes = self.SHAPES[shape]
        self.buckets_of_word = 64 // self.width // self.lanes
        stamp_bits = window.stamps.bit_length()
        self.fingerprint_bits = self.width - stamp_bits
        need(self.fingerprint_bits >= self.LEAST_BITS[shape], "bits of a fingerprint")
        need(self.segments and 0 < self.half <= 2**28 and self.segments * self.half <= 2**53, "size")
        need(self.half % self.buckets_of_word == 0 and 0 < self.capacity < 2**53 and 0 < self.index < 64, "layer")
        need(self.capacity <= self.segments * 2 * self.half * self.lanes, "capacity of a layer")
        self.segment_words = 2 * self.half // self.buckets_of_word
        words, self.mix = self.segments * self.segment_words, Mixing(container.seed)
        array = container.array(words * 8 + -words * 8 % UNIT)
        need(not any(array[words * 8:]), "zeros")
        live = container.features & LIVE
        self.copied = [window.last] * self.segments if live else container.row(self.COPIED, number, self.segments)
        need(list(self.copied) == sorted(self.copied) and self.copied[0] >= window.last, "periods of copies")
        window.last = self.copied[-1]
        self.entries, self.window = {}, window  # by bucket: fingerprints, with their periods
        values = struct.unpack_from(f"<{words}Q", array)
        self.further, self.used = {} if live else container.counts(number, values, self.width), 0  # further: by lane
        need(container.kind == 2 and not window.counted or not self.further, "counts")
        for at in range(words):
            self.read_word(at, values[at], live)
        if live:
            return
        for bucket, entries in self.entries.items():
            for fingerprint in entries:
                need(fingerprint not in self.entries.get(self.other(bucket, fingerprint), ()), "a lane too many")

    def read_word(self, at, word, live):
        period, stamp_bits = self.copied[at // self.segment_words], self.width - self.fingerprint_bits
        need(not word >> 64 // self.width * self.width, "bits that are no lane's")
        for lane in range(64 // self.width):
            entry = word >> lane * self.width & (1 << self.width) - 1
            if not entry:
                continue
            stamp, fingerprint = entry & (1 << stamp_bits) - 1, entry >> stamp_bits
            need(0 < stamp <= self.window.stamps and fingerprint, "entry")
            age = (self.window.stamp_of(period) - stamp) % self.window.stamps
            need(live or age < self.window.stamps - 1, "dead stamp")
            if self.window.counted:
                self.further[at * (64 // self.width) + lane] = age
            entries = self.entries.setdefault(at * self.buckets_of_word + lane // self.lanes, {})
            need(live or fingerprint not in entries, "a lane too many")
            entries[fingerprint] = period - age, 1 + self.further.get(at * (64 // self.width) + lane, 0)
            self.used += 1

    def reflect(self, fingerprint, i):
        return (to_range(fingerprint << 64 - self.fingerprint_bits, self.half) - i) % self.half

    def other(self, bucket, fingerprint):
        base, i = bucket // (2 * self.half) * 2 * self.half, bucket % (2 * self.half)
        if i < self.half:
            return base + self.half + self.reflect(fingerprint, i)
        return base + self.reflect(fingerprint, i - self.half)

    def count_hash(self, hash_):
        x = self.mix(hash_) * MULTIPLIER & MASK64
        segment = to_range(x, self.segments) if self.segments > 1 else 0
        if self.segments > 1:
            x = x * self.segments & MASK64
        lower = segment * 2 * self.half + to_range(x, self.half)
        fingerprint = (x * self.half & MASK64) >> 64 - self.fingerprint_bits or 1
        for bucket in (lower, self.other(lower, fingerprint)):
            period, copies = self.entries.get(bucket, {}).get(fingerprint, (0, 0))
            if copies and self.window.last - period <= self.window.periods:
                return copies
        return 0


class Window:
    """A sliding window; or a counted table, in which the age of an entry is the number of its further copies."""
    LAYER, NOW = 32, 6  # NOW: the stamp of one copy in a counted table

    def __init__(self, container):
        self.periods, renews, self.first, self.stamp, layers, growths, *oldest = container.geometry[:12]
        self.stamps, self.last = self.periods + 2, self.first
        live, self.counted = container.features & LIVE, container.features & COUNTED
        need(not container.features & LAYERS and container.layout == 0, "layout")
        need(1 <= self.periods <= 64 and renews <= 1 and self.first < 2**36, "window")
        need(1 <= self.stamp <= self.stamps, "stamp")
        need(1 <= layers <= (63 if container.growable else 1), "number of layers")
        need(not live or not (self.first or growths or oldest[5] or container.growable) and
             self.stamp == (self.NOW if self.counted else 1), "live")
        need(not self.counted or (self.periods, renews, self.first, self.stamp, growths, container.growable) ==
             (5, 0, 0, self.NOW, 0, 0), "clock of a counted table")
        need(growths < 2**31 and not any(container.geometry[12:]), "geometry")
        need(container.kind == 2 or not oldest[5], "copies")
        oldest = oldest[:5]
        if live:
            self.read_live(container, oldest)
            return
        self.layers = []
        for number in range(layers):
            if number:
                block = container.block()
                if not block:
                    break
                need(block.type == self.LAYER and block.meanings == (number, 0, 0, 0) and
                     len(block.payload) == 40, "layer")
                oldest = struct.unpack("<5Q", block.payload)
            layer = WindowLayer(self, container, oldest, number)
            need(all(layer.index != before.index for before in self.layers), "layers")
            self.layers.append(layer)
        used, last, further = container.end()
        need(used == sum(layer.used for layer in self.layers), "lanes")
        need(further == sum(sum(layer.further.values()) for layer in self.layers), "copies")
        need(self.last <= last < (1 if self.counted else 2**36), "last period")
        self.last = last

    def read_live(self, container, numbers):
        """A file that no process changes now."""
        shape, segments, half = numbers[:3]
        lanes, versions = WindowLayer.SHAPES[min(shape, 7)], 256
        words = -(-segments * 2 * half // (64 // lanes[0] // lanes[1]))
        while versions > 2 and versions > words // 8 // 4:
            versions //= 2
        need(not any(container.take(-container.at % ARRAY_ALIGNMENT)), "padding of the state")
        epoch = u64(container.take(UNIT), 0)
        self.first = self.last = epoch >> 28
        self.stamp, after = epoch >> 8 & 127, epoch & 127
        need(1 <= self.stamp <= self.stamps and after == self.stamp % self.stamps + 1, "stamps")
        need(not self.counted or (self.first, self.stamp) == (0, self.NOW), "clock of a counted table")
        container.take(-(-versions * 8 // UNIT) * UNIT + UNIT + UNIT * container.stripes)
        self.layers = [WindowLayer(self, container, numbers, 0)]

    def stamp_of(self, period):
        return 1 + (self.stamp - 1 + period - self.first) % self.stamps

    def count_hash(self, hash_):  # in the oldest layer that has the key
        return next(filter(None, (layer.count_hash(hash_) for layer in self.layers)), 0)

    def contains_hash(self, hash_):
        return self.count_hash(hash_) > 0


# ---- cuckoo filters ----

class Generation:
    WIDTHS = (8, 9, 10, 12, 16, 21, 32)

    def __init__(self, container, figures, before=None):
        self.width, self.pair_bits, self.depth_limit, self.stripes, rate, self.shift, uneven = figures
        self.first_roots, self.ages, later = container.geometry[7], container.growable, before is not None
        self.uneven_at = uneven - 1 if 0 < uneven <= self.depth_limit else self.depth_limit  # P; without one, no depth is above
        has_uneven = self.uneven_at < self.depth_limit
        need(self.width in self.WIDTHS and self.stripes in (1, 2, 4, 8, 16, 32), "width")
        need(0 < struct.unpack("<d", struct.pack("<Q", rate))[0] < 1, "rate")
        need(0 < self.first_roots < 2**48 and self.shift < 48 and (later or not self.shift), "roots")
        need(self.pair_bits <= (11 if self.ages else 20), "pairs")
        need(1 <= self.depth_limit <= min(self.width - 5 + has_uneven, 9 if later else 14) if self.ages else
             not self.depth_limit and not uneven, "depth")
        need(uneven < 64, "uneven split")
        self.wide = self.width
        if has_uneven and self.uneven_at:
            need(not later and self.width <= 16, "width after the uneven split")
            self.wide = self.WIDTHS[self.WIDTHS.index(self.width) + 1]
        self.roots, self.buckets = self.first_roots << self.shift, 2 << self.pair_bits
        self.for_life = self.shift + self.pair_bits + self.width  # bits that its entries always know
        need(not later or self.for_life >= before.for_life, "its entries know too little")
        self.root0_bits = (self.first_roots - 1).bit_length()
        self.needs_second = (self.root0_bits + self.shift + self.pair_bits + self.depth_limit + self.wide -
                             (1 if self.ages else 0)) > 64
        self.segments = {}  # of each index that begins one: depth, buckets, counts by lane
        self.next = 0

    def width_at(self, depth):
        return self.wide if depth > self.uneven_at else self.width

    def fingerprint_at(self, mixed):
        """Root, pair and fingerprint; the latter has 64 bits."""
        product = spread(mixed) * self.first_roots
        root, bits, length = product >> 64, product & MASK64, 64
        if self.needs_second:
            length = 64 - self.root0_bits
            bits = (bits >> self.root0_bits) << 64 | spread(fold(mixed, 0x2545F4914F6CDD1D, 0))
            length += 64

        def take(n):
            nonlocal bits, length
            length -= n
            value = bits >> length if length >= 0 else bits << -length
            bits = bits & (1 << length) - 1 if length > 0 else 0
            return value

        return root << self.shift | take(self.shift), take(self.pair_bits), take(64)

    def path(self, fingerprint, product):
        """The first D bits that choose among the segments of a root."""
        path, after = fingerprint, 64 - self.uneven_at
        if self.uneven_at < self.depth_limit:
            class_ = (product >> 12) % 2**32 < 0x6A09E667
            path = (fingerprint >> after << 1 | class_) << after - 1 | fingerprint % (1 << after) >> 1
        return path >> 64 - self.depth_limit

    def matches(self, mixed):
        """The entries that match a key: bits known of the hash string, segment, bucket, lane."""
        root, pair, fingerprint = self.fingerprint_at(mixed)
        product = (fingerprint >> 65 - self.width) * 0x9E3779B97F4A7C15 & MASK64
        index = root << self.depth_limit | self.path(fingerprint, product)
        for depth in range(self.depth_limit + 1):
            first = index >> self.depth_limit - depth << self.depth_limit - depth
            segment = self.segments.get(first)
            if segment and segment[0] == depth:
                break
        else:
            return
        upper = self.buckets // 2 + (pair ^ product >> 64 - self.pair_bits)
        width, prefix = self.width_at(depth), depth - (depth > self.uneven_at)
        for bucket in (pair, upper):
            for lane in range(64 // width):
                entry = segment[1][bucket] >> lane * width & (1 << width) - 1
                if not entry:
                    continue
                if not self.ages:
                    if entry == (fingerprint >> 64 - width or 1):
                        yield 0, segment, bucket, lane
                    continue
                age = (entry & -entry).bit_length() - 1
                known = width - 1 - age
                if entry >> age + 1 == (fingerprint << prefix & MASK64) >> 64 - known:
                    yield self.shift + self.pair_bits + prefix + known, segment, bucket, lane

    def in_use(self, buckets, depth=0):
        """The lanes in use, in order."""
        width, lanes = self.width_at(depth), []
        for i, value in enumerate(buckets):
            need(value >> 64 // width * width == 0, "bits above the lanes")
            for lane in range(64 // width):
                if value >> lane * width & (1 << width) - 1:
                    lanes.append((i, lane))
        return lanes


class Cuckoo:
    GENERATION, SEGMENT, REMOVED, _, PLACES, LIMITS = range(16, 22)

    def __init__(self, container):
        self.container, self.mix = container, Mixing(container.seed)
        need(not any(container.geometry[11:]) and container.geometry[10] <= 1, "geometry")
        need(container.layout == 0, "layout")
        self.generations = [Generation(container, container.geometry[:7])]
        self.totals, self.removed = [0, 0, 0], []
        if container.growable:
            self.read_blocks()
        else:
            self.read_arrays()
        need(container.end() == tuple(self.totals), "totals")
        for mixed in self.removed:
            self.remove(mixed)

    def read_blocks(self):
        generation, last = self.generations[0], False
        while (block := self.container.block()) is not None:
            need(not last, "a block after the limits")
            if block.type == self.LIMITS:
                excess, = struct.unpack("<d", struct.pack("<Q", block.meanings[0]))
                need(0 <= excess < self.container.fpp and len(block.payload) == 8 * len(self.generations) and
                     all(u64(block.payload, 8 * i) <= g.depth_limit for i, g in enumerate(self.generations)), "limits")
                last = True
            elif block.type == self.GENERATION:
                need(block.meanings == (len(self.generations), 0, 0, 0) and len(block.payload) == 56 and
                     len(self.generations) < 24, "generation")
                need(generation.next % (1 << generation.depth_limit) == 0, "a root is not complete")
                generation = Generation(self.container, struct.unpack("<7Q", block.payload), generation)
                self.generations.append(generation)
            elif block.type == self.SEGMENT:
                self.read_segment(generation, block)
            else:
                need(block.type == self.REMOVED and not any(block.meanings) and block.payload and
                     len(block.payload) % 8 == 0, "type of a block")
                self.removed += struct.unpack(f"<{len(block.payload) // 8}Q", block.payload)
        need(generation.next % (1 << generation.depth_limit) == 0, "a root is not complete")

    def read_segment(self, g, block):
        number, depth = block.meanings[0] % 2**32, block.meanings[0] >> 32
        index = block.meanings[1]
        need(number == len(self.generations) - 1 and depth <= g.depth_limit, "depth")
        count = 1 << g.depth_limit - depth
        whole = 1 << g.depth_limit
        need(index % count == 0 and index < g.roots * whole, "index")
        need(index == g.next or index > g.next and index % whole == 0 and g.next % whole == 0, "a gap")
        g.next = index + count
        need(len(block.payload) == g.buckets * 8 and block.meanings[2] < 2**31, "segment")
        buckets = struct.unpack(f"<{g.buckets}Q", block.payload)
        lanes, width = g.in_use(buckets, depth), g.width_at(depth)
        for bucket, lane in lanes:
            entry = buckets[bucket] >> lane * width & (1 << width) - 1
            need((entry & -entry).bit_length() - 1 <= depth - (depth > g.uneven_at) + width - g.width, "an entry is too old")
        need(len(lanes) == block.meanings[3], "lanes in use")
        self.add(g, index, depth, buckets, lanes)
        self.totals[2] += 1

    def read_arrays(self):
        g, places = self.generations[0], []
        head = 64 + (g.stripes * 16 + 63) // 64 * 64
        for root in range(g.roots):
            array = self.container.array(head + (g.buckets * 8 + 63) // 64 * 64)
            places.append(self.container.last_array)
            buckets = struct.unpack_from(f"<{g.buckets}Q", array, head)
            lanes = g.in_use(buckets)
            used = [0] * g.stripes
            for bucket, _ in lanes:
                used[bucket % g.stripes] += 1
            copying = array[44:48]
            expected = copying.rjust(48, b"\0") + bytes(16) + b"".join(struct.pack("<IIQ", 0, n, 0) for n in used)
            need(array[:head] == expected.ljust(head, b"\0") and copying[3] < 128, "before the buckets")
            need(not any(array[head + g.buckets * 8:]), "after the buckets")
            self.add(g, root, 0, buckets, lanes)
        self.totals[2] = self.container.at
        need(self.container.row(self.PLACES, 0, g.roots) == places, "places")

    def add(self, g, index, depth, buckets, lanes):
        counts = self.container.counts(index, buckets, g.width_at(depth))
        g.segments[index] = (depth, list(buckets), counts)
        self.totals[0] += len(lanes)
        self.totals[1] += sum(counts.values())

    def remove(self, mixed):
        best, of = None, None
        for g in self.generations:
            for match in g.matches(mixed):
                if best is None or match[0] > best[0]:
                    best, of = match, g
        need(best, "a removed key is absent")
        _, segment, bucket, lane = best
        width = of.width_at(segment[0])
        if segment[2].get(bucket * (64 // width) + lane):
            segment[2][bucket * (64 // width) + lane] -= 1
        else:
            segment[1][bucket] &= ~((1 << width) - 1 << lane * width)

    def contains_hash(self, hash_):
        mixed = self.mix(hash_)
        return any(True for g in self.generations for _ in g.matches(mixed))


KINDS = {1: Bloom, 2: Cuckoo, 3: Bloom}


# ---- any filter ----

class Filter:
    def __init__(self, data, own_hash=None):
        self.container = Container(data, own_hash)
        need(self.container.kind in KINDS, "kind")
        window = self.container.features & (WINDOW | COUNTED)
        self.filter = (Window if window else KINDS[self.container.kind])(self.container)
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
