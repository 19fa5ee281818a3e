#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Redis reads a filter that Python has saved, and Python one of Redis: equal answers, false positives among them.

    redis_files.py --module tamis-redis.so [--keys N]

A filter comes into a server, and out of it, in the chunks of LOADCHUNK and SCANDUMP.  Each chunk has a head of 64
bytes, and together they have a head of 128 bytes and a saved filter (redis/chunks.h, redis/image.h).
"""
import argparse
import pathlib
import struct
import sys

import tamis

TREE = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TREE / "redis/tests")]
import server as servers  # noqa: E402

MASK = 2**64 - 1
CHUNK = (1 << 20) - 64
KINDS = {"bloom": 1, "cuckoo": 2}
FAMILIES = {"bloom": "BF", "cuckoo": "CF"}


def step(sum_, word):
    sum_ = (sum_ ^ word) * 0x9E3779B97F4A7C15 & MASK
    return sum_ ^ sum_ >> 29


def sum_of(data, seed=0):
    sum_ = step(seed, len(data))
    data = data + bytes(-len(data) % 8)
    for word in struct.unpack(f"<{len(data) // 8}Q", data):
        sum_ = step(sum_, word)
    return step(sum_, 0)


def chunks_of(f):
    kind, growth = KINDS[f.stats().kind], 2 if f.stats().kind == "bloom" else 1
    head = struct.pack("<8s14Q", b"TAMISKEY", 1, kind, growth, 2 if kind == 2 else 0, 20 if kind == 2 else 0, *[0] * 9)
    image = head + struct.pack("<Q", sum_of(head)) + f.to_bytes()
    contents = [image[i:i + CHUNK] for i in range(0, len(image), CHUNK)]
    id_ = 0
    for content in contents:
        id_ = sum_of(content, id_)
    for number, content in enumerate(contents):
        head = struct.pack("<8s6Q", b"TAMISCHK", 1, kind, id_, number, number == len(contents) - 1, len(content))
        cursor = (id_ >> 33 << 20 | number + 1) | 1 << 50
        yield cursor, head + struct.pack("<Q", sum_of(content, sum_of(head))) + content


def filter_of(client, family, key):
    cursor, image = 0, b""
    while True:
        cursor, chunk = client(f"{family}.SCANDUMP", key, cursor)
        if cursor == 0:
            return tamis.from_bytes(image[128:])
        image += chunk[64:]


def ask(client, family, key, keys):
    parts = [keys[i:i + 1000] for i in range(0, len(keys), 1000)]
    replies = client.pipeline([[f"{family}.MEXISTS", key, *part] for part in parts], depth=50)
    return [answer == 1 for reply in replies for answer in reply]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--module", required=True)
    parser.add_argument("--keys", type=int, default=10**6)
    options = parser.parse_args()
    n = options.keys
    keys = [f"https://example.org/page/{i}" for i in range(n)]
    server = servers.Server("redis", options.module)
    client = server.connect()
    for made in tamis.Bloom(n // 2, 0.01), tamis.Cuckoo(n // 2, 0.01):
        name, family = made.stats().kind, FAMILIES[made.stats().kind]
        made.update(keys[:n // 2])
        answers = made.contains_many(keys)
        for cursor, chunk in chunks_of(made):
            reply = client(f"{family}.LOADCHUNK", name, cursor, chunk)
            assert reply == "OK", reply
        assert ask(client, family, name, keys) == answers, f"Redis does not agree on {made}"
        again = filter_of(client, family, name)
        assert again.contains_many(keys) == answers and again.seed == made.seed
        # What the server adds is there, too.
        client(f"{family}.ADD", name, "another key")
        assert "another key" in filter_of(client, family, name)
        print(f"{name}: {n} equal answers, {answers.count(True) - n // 2} false positives among them")
    server.stop()


if __name__ == "__main__":
    main()
