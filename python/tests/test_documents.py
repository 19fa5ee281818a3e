# SPDX-License-Identifier: MIT
"""The blocks of Python in the documents run as they stand, with their own defaults."""
import pathlib
import sys

import pytest
import tamis

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests/lint"))
from check_documents import marked  # noqa: E402


def readme():
    printed = []
    yield dict(print=printed.append)
    assert printed == [["apple", "pear"]]


def processes():
    first = []
    yield dict(key="apple", first_of_all_processes=first.append)
    assert first == ["apple"]


def window():
    served = []
    names = dict(serve=lambda: served.append(names["recent"].add("apple")))
    yield names
    assert served == [True] and "apple" in names["recent"]


def once():
    worked, acknowledged = [], []
    channel = type("Channel", (), {"basic_ack": acknowledged.append})
    message = type("Message", (), {"message_id": "order 1", "delivery_tag": 7})
    names = dict(work=worked.append)
    yield names
    for _ in range(2):
        names["receive"](channel, message, message, b"body")
    assert worked == [b"body"] and acknowledged == [7, 7]


def scrapy():
    test = pytest.importorskip("scrapy.utils.test")
    names = {}
    yield names
    settings = {name: value for name, value in names.items() if name.isupper()}
    made = sys.modules["tamis.scrapy"] if "tamis.scrapy" in sys.modules else __import__("tamis.scrapy").scrapy
    f = made.DupeFilter.from_crawler(test.get_crawler(settings_dict=settings))
    assert settings["DUPEFILTER_CLASS"] == "tamis.scrapy.DupeFilter" and len(settings) == 5
    assert (f.seen.capacity, f.seen.fpp, f.save_interval) == (10**7, 1e-6, 60)


#: what each block needs, by the name in its mark, and what is true after it
PREPARED = {make.__name__: make for make in (readme, processes, window, once, scrapy)}
BLOCKS = {block.name: block for block in marked(TREE, "python/tests/test_documents.py")}


def test_each_block_is_prepared():
    assert BLOCKS.keys() == PREPARED.keys()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BLOCKS)
def test_block(name, tmp_path):
    text = BLOCKS[name].text
    for place in "/dev/shm/", "/var/lib/shop/":
        text = text.replace(place, f"{tmp_path}/")
    prepared = PREPARED[name]()
    names = next(prepared)
    names["tamis"] = tamis
    exec(compile(text, BLOCKS[name].document, "exec"), names)
    with pytest.raises(StopIteration):
        next(prepared)
