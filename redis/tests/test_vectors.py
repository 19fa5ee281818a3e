# SPDX-License-Identifier: MIT
"""The filters in tests/compat/vectors have the answers here that they have in C, Python and JavaScript, false positives among
them, and take the same keys for new.
"""
import json
import pathlib

import image
import pytest
from filters import ask, insert
from server import ReplyError, same

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/compat/vectors"
VECTORS = json.loads((FOLDER / "vectors.json").read_text())
KEYS = [bytes.fromhex(key) for key in VECTORS["keys"].split(" ")]
KINDS = {"bloom": image.BLOOM, "cuckoo": image.CUCKOO}


def saved(name):
    return (FOLDER / f"{name}.tamis").read_bytes()


def counts(server, name, kind):
    if kind == image.CUCKOO:
        return [server("CF.COUNT", name, key) for key in KEYS]
    return server("BF.MEXISTS", name, *KEYS)


def add_later_keys(server, name, kind):
    command = "BF.ADD" if kind == image.BLOOM else "CF.ADDNX"
    return "".join(str(int(server(command, name, key))) for key in KEYS[-VECTORS["later"]:])


def test_vectors(server):
    """What comes out again are the bytes that every reader is tested with."""
    false_positives = 0
    server("CONFIG", "SET", "tamis.max-bytes", "0")  # a limit is saved, too
    for name, known in VECTORS["filters"].items():
        if known["kind"] not in KINDS:
            continue
        kind = KINDS[known["kind"]]
        image.load(server, name, saved(name), kind, known["window"])
        expected = [int(count) for count in known["counts"]]
        same(counts(server, name, kind), expected, f"{name}: counts")
        same(image.saved_of(server, name, kind), saved(name), f"{name}: what comes out again")
        same(add_later_keys(server, name, kind), known["new"], f"{name}: what is new")
        assert all(counts(server, name, kind)[-VECTORS["later"]:]), f"{name}: what was added"
        false_positives += sum(expected[150:]) > 0
    assert false_positives >= 8
    server("CONFIG", "SET", "tamis.max-bytes", "512mb")


def test_many_chunks(server):
    """A filter that needs several comes out, and in again, in chunks of the tests' own: nothing is lost, and nothing else changes."""
    for family, kind, reserve in (("BF", image.BLOOM, "f 0.001 2000000"), ("CF", image.CUCKOO, "f 2000000")):
        server(f"{family}.RESERVE", *reserve.split())
        insert(server, family, "f", range(500_000))
        filter_saved = image.saved_of(server, "f", kind)
        assert len(list(image.chunks_of(filter_saved, kind))) > 2
        image.load(server, "again", filter_saved, kind)
        same(image.saved_of(server, "again", kind), filter_saved)
        server(f"{family}.ADD", "again", "another item")
        image.load(server, "third", image.saved_of(server, "again", kind), kind)
        same(set(ask(server, family, "third", [*range(0, 500_000, 50), "another item"])), {1})
        server("DEL", "f", "again", "third")


def test_what_the_module_does_not_have(server):
    """A counting filter is refused by both families, and leaves nothing behind."""
    for kind in image.BLOOM, image.CUCKOO:
        with pytest.raises(ReplyError):
            image.load(server, "counting", saved("counting"), kind)
        same(server("EXISTS", "counting"), 0)
