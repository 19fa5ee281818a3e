# SPDX-License-Identifier: MIT
"""Saved filters in a server, and those of a server as saved ones.

A filter comes into a server, and out of it, in the chunks of LOADCHUNK and SCANDUMP.  Each chunk has a head of 64
bytes, and together they have a head of 128 bytes and the filter as tamis_save writes it (redis/chunks.h, redis/image.h).
"""
import struct

import filters

MASK = 2**64 - 1
CHUNK = (1 << 20) - 64
RECORD = 8  # a number of zeros, a number of other bytes
BLOOM, CUCKOO = 1, 2
FAMILIES = {BLOOM: "BF", CUCKOO: "CF"}


def step(sum_, word):
    sum_ = (sum_ ^ word) * 0x9E3779B97F4A7C15 & MASK
    return sum_ ^ sum_ >> 29


def sum_of(data, seed=0):
    sum_ = step(seed, len(data))
    data = data + bytes(-len(data) % 8)
    for word in struct.unpack(f"<{len(data) // 8}Q", data):
        sum_ = step(sum_, word)
    return step(sum_, 0)


def chunks_of(saved, kind, window=0):
    """What LOADCHUNK takes for a filter: pairs of a cursor and a chunk."""
    traits = [2, 0, 0] if kind == BLOOM else [1, 2, 20]  # EXPANSION, BUCKETSIZE, MAXITERATIONS: as RESERVE has them
    head = struct.pack("<8s14Q", b"TAMISKEY", 1, kind, *traits, 0, 0, window, *[0] * 6)
    image = head + struct.pack("<Q", sum_of(head)) + saved
    contents = [record(image[i:i + CHUNK - RECORD]) for i in range(0, len(image), CHUNK - RECORD)]
    id_ = sum_of(contents[0])
    for number, content in enumerate(contents):
        head = struct.pack("<8s6Q", b"TAMISCHK", 1, kind, id_, number, number == len(contents) - 1, len(content))
        cursor = (id_ >> 33 << 20 | (number + 1 if number < len(contents) - 1 else 2**20 - 1)) | 1 << 50
        yield cursor, head + struct.pack("<Q", sum_of(content, sum_of(head))) + content


def record(data):
    """One record of a chunk, of bytes that are not zero."""
    return struct.pack("<2I", 0, len(data)) + data


def data_of(chunk):
    """What the records of a chunk stand for."""
    data, at = b"", 64
    while at < len(chunk):
        zeros, others = struct.unpack_from("<2I", chunk, at)
        at += RECORD + others
        data += bytes(zeros) + chunk[at - others:at]
    return data


def sealed(first, records):
    """The only chunk of a key, made from that of another one, with other records in it."""
    head = first[:32] + struct.pack("<3Q", 0, 1, len(records))
    return head + struct.pack("<Q", sum_of(records, sum_of(head))) + records


def load(client, key, saved, kind, window=0):
    filters.load(client, FAMILIES[kind], key, chunks_of(saved, kind, window))


def saved_of(client, key, kind):
    """The filter as tamis_save writes it."""
    return b"".join(data_of(chunk) for _, chunk in filters.chunks(client, FAMILIES[kind], key))[128:]
