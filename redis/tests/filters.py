# SPDX-License-Identifier: MIT
"""Filters of every shape in a server, and all that can be asked of them as a value to compare."""
from server import same

KEYS = 3000
ABSENT = [f"absent {i}" for i in range(3000)]


def fill(server, size=KEYS):
    """Filters of every shape."""
    server("BF.RESERVE", "bloom", "0.05", "1000")  # a high rate, so that false positives are compared
    server("BF.RESERVE", "fixed", "0.05", size, "NONSCALING")
    server("CF.RESERVE", "cuckoo", "100", "SEED", "1")
    server("CF.RESERVE", "still", size * 2, "EXPANSION", "0", "BUCKETSIZE", "4")
    for start in range(0, size, 500):
        keys = range(start, min(start + 500, size))
        for name in ("bloom", "fixed"):
            server("BF.MADD", name, *keys)
        for name in ("cuckoo", "still"):
            server("CF.INSERT", name, "ITEMS", *keys)
    server.client.pipeline([["CF.ADD", "cuckoo", "copies"]] * 20)
    server.client.pipeline([["CF.DEL", "cuckoo", i] for i in range(0, size, 3)])
    server("BF.RESERVE", "window", "0.05", "1000", "WINDOW", "3")
    server("CF.RESERVE", "cuckoo window", "1000", "ERROR", "0.05", "WINDOW", "3", "RENEWS")
    for start in range(0, size, 500):
        server("BF.MADD", "window", *range(start, start + 500))
        server("CF.INSERT", "cuckoo window", "ITEMS", *range(start, start + 500), *range(0, 30))
        server("BF.ADVANCE", "window")
        server("CF.ADVANCE", "cuckoo window")
    server.client.pipeline([["CF.DEL", "cuckoo window", i] for i in range(0, 20)])
    server("BF.ADD", "default", "a")
    server("CF.ADD", "default cuckoo", "a")
    server("BF.RESERVE", "empty", "0.01", "100")
    server("CF.RESERVE", "empty cuckoo", "100")


def answers(server, size=KEYS):
    """All that can be asked of the filters, as one value to compare."""
    found = {}
    for key in sorted(server("KEYS", "*")):
        kind = "CF" if b"cuckoo" in key or key == b"still" else "BF"
        found[key] = [server(f"{kind}.MEXISTS", key, *range(size)), server(f"{kind}.MEXISTS", key, *ABSENT)]
        if kind == "CF":
            found[key].append([server("CF.COUNT", key, word) for word in (0, 1, 2, 3, "copies", "absent")])
        else:
            found[key].append(server("BF.CARD", key))
        # Not its size: a filter that is loaded has no memory that waits to be released.
        info = server(f"{kind}.INFO", key)
        found[key].append([pair for pair in zip(info[::2], info[1::2]) if pair[0] not in (b"Size", "Size")])
    assert found
    return found


def compare(before, after, what):
    same(list(after), list(before), f"{what}: keys")
    for key in before:
        for part, (a, b) in enumerate(zip(before[key], after[key])):
            assert a == b, f"{what}: {key} differs in part {part}: {a[:20] if isinstance(a, list) else a} " \
                           f"then {b[:20] if isinstance(b, list) else b}"


def chunks(client, kind, key):
    found, cursor = [], 0
    while True:
        cursor, data = client(f"{kind}.SCANDUMP", key, cursor)
        if cursor == 0:
            return found
        found.append((cursor, data))
