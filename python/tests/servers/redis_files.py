#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Redis reads a filter that Python has saved, and Python one of Redis: equal answers, false positives among them.

    redis_files.py --module tamis-redis.so [--keys N]
"""
import argparse
import pathlib
import sys

import tamis

TREE = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TREE / "redis/tests")]
import filters  # noqa: E402
import image  # noqa: E402
import server as servers  # noqa: E402

KINDS = {"bloom": image.BLOOM, "cuckoo": image.CUCKOO}


def filter_of(client, key, kind):
    return tamis.from_bytes(image.saved_of(client, key, kind))


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
        name = made.stats().kind
        kind, family = KINDS[name], image.FAMILIES[KINDS[name]]
        made.update(keys[:n // 2])
        answers = made.contains_many(keys)
        image.load(client, name, made.to_bytes(), kind)
        assert filters.ask(client, family, name, keys) == answers, f"Redis does not agree on {made}"
        again = filter_of(client, name, kind)
        assert again.contains_many(keys) == answers and again.seed == made.seed
        # What the server adds is there, too.
        client(f"{family}.ADD", name, "another key")
        assert "another key" in filter_of(client, name, kind)
        print(f"{name}: {n} equal answers, {answers.count(True) - n // 2} false positives among them")
    server.stop()


if __name__ == "__main__":
    main()
