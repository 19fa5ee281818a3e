# SPDX-License-Identifier: MIT
"""Filters of RedisBloom's with a million items: after the import, a million items that are in and a million that are
not get the answers that RedisBloom gives, by its model in redisbloom.py.  It takes some minutes for each form.
"""
import pytest
import redisbloom
from filters import info, load
from redisbloom import HASH_64, NONSCALING, NOROUND, Bloom, Cuckoo
from server import same

MILLION, PART = 10**6, 5000


def words(name, start):
    return [b"%s-%d" % (name, number) for number in range(start, start + PART)]


@pytest.mark.parametrize("model, layers", [
    (Bloom(0.01, MILLION // 6), [3]), (Bloom(0.001, MILLION, 2, NOROUND | HASH_64 | NONSCALING), [1]),
    (Bloom(0.01, MILLION // 4, 2, NOROUND), [3]), (Bloom(0.01, MILLION, 2, HASH_64), [1]),
    (Cuckoo(1 << 18, 1, 20, 2), range(2, 32)), (Cuckoo(1 << 18, 2, 20, 1), range(4, 32)), (Cuckoo(1 << 19, 4, 20, 2), [2])],
    ids=["layers", "nonscaling", "hash_32", "powers_of_two", "buckets_of_1", "buckets_of_2", "buckets_of_4"])
def test_form(server, model, layers):
    """Fills the model, imports it, and asks both."""
    for start in range(0, MILLION, PART):
        for word in words(b"in", start):
            model.add(word)
    load(server, model.kind, "f", redisbloom.chunks(model, 1 << 20))
    wrong = {b"in": 0, b"out": 0}
    for name in wrong:
        for start in range(0, MILLION, PART):
            probes = words(name, start)
            answers = server(f"{model.kind}.MEXISTS", "f", *probes)
            wrong[name] += sum(answer != model.has(probe) for answer, probe in zip(answers, probes))
    same(wrong, {b"in": 0, b"out": 0})
    figures = info(server, f"{model.kind}.INFO", "f")
    same(figures["Number of items inserted"], model.count)
    same(figures["Number of filters"], len(model.layers))
    assert len(model.layers) in layers
