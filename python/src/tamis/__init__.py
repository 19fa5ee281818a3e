# SPDX-License-Identifier: MIT
"""Approximate-membership filters that threads and processes share.

A filter answers "have I seen this key?" in a few bits for each key.  "No" is always true; "yes" is wrong with a
small probability that you choose.

>>> import tamis
>>> seen = tamis.Bloom(capacity=1_000_000, fpp=1e-6)
>>> seen.add("https://example.org/")
True
>>> seen.add("https://example.org/")
False
>>> "https://example.org/other" in seen
False

Bloom          the fewest bits for each key
Cuckoo         also removes keys, and grows in small steps
CountingBloom  a Bloom filter that removes keys; Cuckoo is nearly always the better choice
load, from_bytes, from_text
               load a saved filter
open           maps a saved filter for look-ups
shared         opens a filter that several processes change
contains_each  says which of many filters may hold a key
Ticker         ends the periods of a filter with a window
Once           handles each message of a queue once
tamis.scrapy   a duplicate filter for Scrapy

Keys are the same in all languages: the key of a str is its UTF-8, and the key of an int is 8 bytes.  Filters do not
use Python's hash(), so a saved filter gives the same answers in each run.
"""
from . import _tamis
from ._figures import Similarity, Stats
from ._once import Once
from ._tamis import (
    Bloom, CorruptError, CountingBloom, Cuckoo, Error, Filter, FullError, contains_each, contains_each_many,
    from_bytes, from_text, load, open, shared, to_prometheus)
from ._ticker import Ticker

__version__ = _tamis.version

__all__ = ["Bloom", "CorruptError", "CountingBloom", "Cuckoo", "Error", "Filter", "FullError", "Once", "Similarity",
           "Stats", "Ticker", "contains_each", "contains_each_many", "from_bytes", "from_text", "load", "open", "shared", "to_prometheus"]
