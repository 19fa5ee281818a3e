# SPDX-License-Identifier: MIT
"""Filters as valkey-bloom makes them, and the bytes that it gives to BF.LOAD."""
import math
import struct

from redisbloom import Bits, Chain

M64 = (1 << 64) - 1
LARGEST_PRIME = M64 - 58


def rotate(word, by):
    return (word << by | word >> 64 - by) & M64


def sip_13(key, data):
    """SipHash-1-3 of bytes after their length."""
    one, other = struct.unpack("<QQ", key)
    v = [one ^ 0x736f6d6570736575, other ^ 0x646f72616e646f6d, one ^ 0x6c7967656e657261, other ^ 0x7465646279746573]

    def mix():
        v[0], v[2] = v[0] + v[1] & M64, v[2] + v[3] & M64
        v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
        v[0] = rotate(v[0], 32)
        v[2], v[0] = v[2] + v[1] & M64, v[0] + v[3] & M64
        v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
        v[2] = rotate(v[2], 32)

    data = struct.pack("<Q", len(data)) + data
    end = len(data) // 8 * 8
    last = len(data) % 256 << 56 | int.from_bytes(data[end:], "little")
    for word in (*struct.unpack(f"<{end // 8}Q", data[:end]), last):
        v[3] ^= word
        mix()
        v[0] ^= word
    v[2] ^= 255
    for _ in range(3):
        mix()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


class Layer(Bits):
    def __init__(self, entries, rate, seed):
        self.entries, self.size, self.seed = entries, 0, seed
        self.data = bytearray(math.ceil(entries * math.log(rate) / (-8.0 * math.log(2) ** 2)))
        self.hashes = max(math.floor(len(self.data) * 8 / entries * math.log(2) + 0.5), 1)

    def places(self, a, b):
        size = len(self.data) * 8
        for i in range(self.hashes):
            yield (a, b)[i] % size if i < 2 else (a + i * b & M64) % LARGEST_PRIME % size

    def dump(self):
        head = struct.pack("<BQI", 1, len(self.data), self.hashes) + self.seed
        return struct.pack("<Q", len(head) + len(self.data)) + head + self.data + struct.pack("<qq", self.size, self.entries)


class Bloom(Chain):
    kind = "BF"

    def __init__(self, capacity, rate, expansion=2, ratio=0.5, seed=bytes(range(32))):
        self.rate, self.expansion, self.ratio, self.seed = rate, expansion, ratio, seed
        self.layers = [Layer(capacity, rate, seed)]

    def hashes(self, item):
        return sip_13(self.seed[:16], item), sip_13(self.seed[16:], item)

    def is_fixed(self):
        return not self.expansion

    def layer_after(self, last):
        return Layer(last.entries * self.expansion, self.rate * self.ratio ** len(self.layers), self.seed)

    def dump(self):
        return struct.pack("<BIddBQ", 1, self.expansion, self.rate, self.ratio, 1, len(self.layers)) + \
            b"".join(layer.dump() for layer in self.layers)

    def head(self):
        """What this module's own dump of such a filter begins with, as the first chunk."""
        numbers = struct.pack("<QIII", sum(layer.size for layer in self.layers), len(self.layers), 16, self.expansion)
        return numbers + self.seed + struct.pack("<d", self.ratio) + b"".join(
            struct.pack("<QQQddIQB", len(layer.data), len(layer.data) * 8, layer.size, self.rate * self.ratio ** i,
                        len(layer.data) * 8 / layer.entries, layer.hashes, layer.entries, 0) for i, layer in enumerate(self.layers))

    def tables(self):
        return [bytes(layer.data) for layer in self.layers]
