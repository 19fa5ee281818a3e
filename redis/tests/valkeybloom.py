# SPDX-License-Identifier: MIT
"""Filters as valkey-bloom makes them, and the bytes that it gives to BF.LOAD."""
import math
import struct

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


class Layer:
    def __init__(self, capacity, rate, seed):
        self.capacity, self.count, self.seed = capacity, 0, seed
        self.bits = bytearray(math.ceil(capacity * math.log(rate) / (-8.0 * math.log(2) ** 2)))
        self.hashes = max(math.floor(len(self.bits) * 8 / capacity * math.log(2) + 0.5), 1)

    def places(self, a, b):
        size = len(self.bits) * 8
        for i in range(self.hashes):
            yield (a, b)[i] % size if i < 2 else (a + i * b & M64) % LARGEST_PRIME % size

    def has(self, a, b):
        return all(self.bits[at // 8] >> at % 8 & 1 for at in self.places(a, b))

    def add(self, a, b):
        for at in self.places(a, b):
            self.bits[at // 8] |= 1 << at % 8
        self.count += 1

    def dump(self):
        head = struct.pack("<BQI", 1, len(self.bits), self.hashes) + self.seed
        return struct.pack("<Q", len(head) + len(self.bits)) + head + self.bits + struct.pack("<qq", self.count, self.capacity)


class Bloom:
    def __init__(self, capacity, rate, expansion=2, ratio=0.5, seed=bytes(range(32))):
        self.rate, self.expansion, self.ratio, self.seed = rate, expansion, ratio, seed
        self.layers = [Layer(capacity, rate, seed)]

    def hashes(self, item):
        return sip_13(self.seed[:16], item), sip_13(self.seed[16:], item)

    def has(self, item):
        hashes = self.hashes(item)
        return any(layer.has(*hashes) for layer in self.layers)

    def add(self, item):
        """1, 0, or None where it is full."""
        if self.has(item):
            return 0
        last = self.layers[-1]
        if last.count == last.capacity:
            if not self.expansion:
                return None
            rate = self.rate * self.ratio ** len(self.layers)
            last = Layer(last.capacity * self.expansion, rate, self.seed)
            self.layers.append(last)
        last.add(*self.hashes(item))
        return 1

    def dump(self):
        return struct.pack("<BIddBQ", 1, self.expansion, self.rate, self.ratio, 1, len(self.layers)) + \
            b"".join(layer.dump() for layer in self.layers)
