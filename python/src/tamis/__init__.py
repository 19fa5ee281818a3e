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
load, open, shared, from_bytes, from_text
               a saved filter; one that is mapped for look-ups; one that processes change
contains_each  which of many filters may hold a key
Ticker         ends the periods of a filter with a window
Once           work each message of a queue once
tamis.scrapy   a duplicate filter for Scrapy

Keys are the same in all languages: a str is its UTF-8, and an int is 8 bytes.  hash() plays no part, so answers
are the same in each run.
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
