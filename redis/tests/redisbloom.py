# SPDX-License-Identifier: MIT
"""RedisBloom's filters once more, in Python: its answers, and its data in all forms.

Written from the formats, and independent of the module's own code, so that the tests can make data of every
kind: old encodings, hashes of 32 and 64 bits, any number of layers.  `redisbloom/` beside this file has
data that RedisBloom itself wrote, with its answers.
"""
import base64
import functools
import gzip
import hashlib
import json
import math
import pathlib
import struct

SAMPLES = pathlib.Path(__file__).resolve().parent / "redisbloom"
NOROUND, ENTRIES_ARE_BITS, HASH_64, NONSCALING = 1, 2, 4, 8
MASK = (1 << 64) - 1
M64, M32 = 0xC6A4A7935BD1E995, 0x5BD1E995


def murmur_64(key, seed):
    total = seed ^ len(key) * M64 & MASK
    whole = len(key) // 8 * 8
    for (word,) in struct.iter_unpack("<Q", key[:whole]):
        word = word * M64 & MASK
        word = (word ^ word >> 47) * M64 & MASK
        total = (total ^ word) * M64 & MASK
    if whole < len(key):
        total = (total ^ int.from_bytes(key[whole:], "little")) * M64 & MASK
    total = (total ^ total >> 47) * M64 & MASK
    return total ^ total >> 47


def murmur_32(key, seed):
    total = (seed ^ len(key)) & 0xFFFFFFFF
    whole = len(key) // 4 * 4
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        word = word * M32 & 0xFFFFFFFF
        word = (word ^ word >> 24) * M32 & 0xFFFFFFFF
        total = total * M32 & 0xFFFFFFFF ^ word
    if whole < len(key):
        total = (total ^ int.from_bytes(key[whole:], "little")) * M32 & 0xFFFFFFFF
    total = (total ^ total >> 13) * M32 & 0xFFFFFFFF
    return total ^ total >> 15


class Bits:
    """A Bloom filter of a chain: `data`, with `size` of `entries` items, each at the `places` of its two hashes."""

    def has(self, a, b):
        return all(self.data[bit >> 3] >> (bit & 7) & 1 for bit in self.places(a, b))

    def add(self, a, b):
        for bit in self.places(a, b):
            self.data[bit >> 3] |= 1 << (bit & 7)
        self.size += 1


class Chain:
    """Bloom filters, `layers`, of which the last one takes what is in none of them, until it is full."""

    def has(self, key):
        hashes = self.hashes(key)
        return any(layer.has(*hashes) for layer in self.layers)

    def add(self, key):
        """1: new; 0: it was in; None: full."""
        hashes = self.hashes(key)
        if any(layer.has(*hashes) for layer in self.layers):
            return 0
        last = self.layers[-1]
        if last.size >= last.entries:
            if self.is_fixed():
                return None
            last = self.layer_after(last)
            self.layers.append(last)
        last.add(*hashes)
        return 1


class Layer(Bits):
    def __init__(self, entries, rate, options):
        self.entries, self.rate, self.size, self.log2_bits = entries, rate, 0, 0
        self.bits_per_entry = abs(math.log(rate)) / 0.480453013918201
        if options & NOROUND:
            bits = int(entries * self.bits_per_entry) or 1
        else:
            self.log2_bits = int(math.floor(math.log2(entries * self.bits_per_entry))) + 1
            bits = 1 << self.log2_bits
            self.entries += int((bits - entries * self.bits_per_entry) / self.bits_per_entry)
        self.data = bytearray((bits + 63) // 64 * 8)
        self.bits = len(self.data) * 8
        self.hashes = math.ceil(0.693147180559945 * self.bits_per_entry)

    def places(self, a, b):
        modulus = 1 << self.log2_bits if self.log2_bits else self.bits
        return [(a + i * b & MASK) % modulus for i in range(self.hashes)]


class Bloom(Chain):
    """As BF.RESERVE makes one and BF.ADD fills it."""
    kind, type_name = "BF", "MBbloom--"

    def __init__(self, rate, entries, growth=2, options=NOROUND | HASH_64):
        self.options, self.growth = options, growth
        self.layers = [Layer(entries, rate if options & NONSCALING else rate / 2, options)]

    def hashes(self, key):
        if self.options & HASH_64:
            a = murmur_64(key, M64)
            return a, murmur_64(key, a)
        a = murmur_32(key, 0x9747B28C)
        return a, murmur_32(key, a)

    def is_fixed(self):
        return self.options & NONSCALING

    def layer_after(self, last):
        return Layer(last.entries * self.growth, last.rate / 2, self.options)

    @property
    def count(self):
        return sum(layer.size for layer in self.layers)

    def head(self):
        head = struct.pack("<QIII", self.count, len(self.layers), self.options, self.growth)
        for each in self.layers:
            head += struct.pack("<QQQddIQB", len(each.data), each.bits, each.size, each.rate, each.bits_per_entry,
                                each.hashes, each.entries, each.log2_bits)
        return head

    def tables(self):
        return [bytes(layer.data) for layer in self.layers]

    def rdb(self, version):
        numbers = [self.count, len(self.layers)]
        numbers += [self.options] * (version >= 2) + [self.growth] * (version >= 4)
        out = list(map(unsigned, numbers))
        for each in self.layers:
            out += [unsigned(each.entries), double(each.rate), unsigned(each.hashes), double(each.bits_per_entry)]
            out += [unsigned(each.bits), unsigned(each.log2_bits)] if version else []
            out += [string(bytes(each.data)), unsigned(each.size)]
        return b"".join(out)


class Cuckoo:
    """As CF.RESERVE makes one; removes without the compaction that follows there."""
    kind, type_name = "CF", "MBbloomCF"

    def __init__(self, capacity, bucket_size=2, max_iterations=20, expansion=1):
        self.bucket_size, self.max_iterations, self.expansion = bucket_size, max_iterations, expansion
        self.buckets = 1 << max(0, (capacity // bucket_size - 1).bit_length())
        self.count = self.deleted = 0
        self.layers = [bytearray(self.buckets * bucket_size)]

    def places(self, key):
        value = murmur_64(key, 0)
        mark = value % 255 + 1
        return mark, value, value ^ mark * M32

    def bucket(self, table, value):
        start = value % (len(table) // self.bucket_size) * self.bucket_size
        return range(start, start + self.bucket_size)

    def slot(self, mark, one, other, wanted):
        for table in reversed(self.layers):
            for value in (one, other):
                for at in self.bucket(table, value):
                    if table[at] == wanted:
                        return table, at
        return None

    def has(self, key):
        mark, one, other = self.places(key)
        return self.slot(mark, one, other, mark) is not None

    def copies(self, key):
        mark, *values = self.places(key)
        return sum(table[at] == mark for table in self.layers for value in values for at in self.bucket(table, value))

    def push(self, mark, value):
        table, steps, victim = self.layers[-1], [], 0
        for _ in range(self.max_iterations):
            at = self.bucket(table, value)[victim]
            steps.append(at)
            table[at], mark = mark, table[at]
            value ^= mark * M32
            free = [at for at in self.bucket(table, value) if not table[at]]
            if free:
                table[free[0]] = mark
                return True
            victim = (victim + 1) % self.bucket_size
        for at in reversed(steps):
            table[at], mark = mark, table[at]
        return False

    def add(self, key):
        mark, one, other = self.places(key)
        found = self.slot(mark, one, other, 0)
        if not found and not self.push(mark, one):
            if not self.expansion:
                return None
            self.layers.append(bytearray(self.buckets * self.bucket_size * self.expansion ** len(self.layers)))
            found = self.slot(mark, one, other, 0)
        if found:
            found[0][found[1]] = mark
        self.count += 1
        return 1

    def remove(self, key):
        mark, one, other = self.places(key)
        found = self.slot(mark, one, other, mark)
        if not found:
            return 0
        found[0][found[1]] = 0
        self.count -= 1
        self.deleted += 1
        return 1

    def head(self):
        return struct.pack("<QQQQHHH", self.count, self.buckets, self.deleted, len(self.layers), self.bucket_size,
                           self.max_iterations, self.expansion)

    def tables(self):
        return list(map(bytes, self.layers))

    def rdb(self, version):
        numbers = [len(self.layers), self.buckets, self.count]
        if version >= 4:
            numbers += [self.deleted, self.bucket_size, self.max_iterations, self.expansion]
        out = list(map(unsigned, numbers))
        for table in self.layers:
            out += [unsigned(len(table) // self.bucket_size)] if version >= 4 else []
            out.append(string(bytes(table)))
        return b"".join(out)


# ---- RDB ----


def length(number):
    if number < 64:
        return bytes([number])
    if number < 1 << 14:
        return bytes([0x40 | number >> 8, number & 255])
    return b"\x80" + struct.pack(">I", number) if number < 1 << 32 else b"\x81" + struct.pack(">Q", number)


def unsigned(number):
    return b"\x02" + length(number)


def double(number):
    return b"\x04" + struct.pack("<d", number)


def string(data):
    return b"\x05" + length(len(data)) + data


def type_id(name, version):
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    number = 0
    for letter in name:
        number = number << 6 | alphabet.index(letter)
    return b"\x81" + struct.pack(">Q", number << 10 | version)


def payload(model, footer, version=4):
    """As DUMP gives it; `footer` is that of another payload of the server, which does not look at checksums."""
    return b"\x07" + type_id(model.type_name, version) + model.rdb(version) + b"\x00" + footer


def chunks(model, most=1 << 24):
    """As SCANDUMP gives them: pairs of cursor and data."""
    yield 1, model.head()
    cursor = 1
    for table in model.tables():
        for start in range(0, len(table), most):
            part = table[start : start + most]
            cursor += len(part)
            yield cursor, part


# ---- samples ----


class Sample:
    """What RedisBloom wrote and answered."""

    def __init__(self, path):
        self.name = path.name[: -len(".json.gz")]
        self.__dict__.update(json.loads(gzip.open(path).read()))
        self.chunks = [(cursor, base64.b64decode(data)) for cursor, data in self.chunks]
        self.dump = base64.b64decode(self.dump)

        self.probes = keys(self.name, self.keys_in)[::3] + keys(f"{self.name}-not", 20000)


def keys(name, count):
    return [f"{name}:{i}:{hashlib.md5(b'%d' % i).hexdigest()[:6]}" for i in range(count)]


@functools.cache
def samples():
    return [Sample(path) for path in sorted(SAMPLES.glob("*.json.gz"))]
