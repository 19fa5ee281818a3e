# SPDX-License-Identifier: MIT
"""What stats() and similarity() return."""
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Stats:
    """The figures of a filter at one moment.

    They are exact when no thread changes the filter, and close to it while one does.  The fields are those of
    tamis_stats in tamis.h, but for the seed, which is a secret and has an attribute of its own.
    """

    kind: str  #: "bloom", "cuckoo" or "counting_bloom"
    layout: Optional[str]  #: of a Bloom filter without a window: "blocked", "classic" or "word"
    count: int  #: distinct keys of a Bloom filter, less those that a false positive hid; else copies
    estimated_count: float  #: distinct keys, hidden ones too: from the bits that are set, or count
    capacity: int  #: as asked
    load: float  #: estimated_count / capacity
    fpp: float  #: the false-positive probability as asked, with capacity keys
    fpp_estimate: float  #: the false-positive probability at present
    bytes: int  #: all memory of the filter
    bits: int  #: of the bit arrays of a Bloom filter, or of the tables of a window
    bits_set: int  #: how many of them are 1
    bits_per_key: int  #: bits that one key has in a Bloom filter
    growths: int  #: steps of growth so far
    layers: int  #: of a Bloom filter
    generations: int  #: of a cuckoo filter
    segments: int  #: of a cuckoo filter
    joins: int  #: of segments of a cuckoo filter
    fingerprint_bits: int  #: of a cuckoo filter
    occupancy: float  #: the part of a cuckoo filter's room that is in use
    evictions: int  #: moves that made room for a key
    failed_searches: int  #: how often no move made room
    refused_adds: int  #: adds that raised FullError or MemoryError
    lookup_retries: int  #: how often a look-up began again
    longest_growth_ns: int  #: the longest step of growth, in nanoseconds
    window: int  #: periods for which keys are remembered; 0: for ever
    oldest_part_age: int  #: how many periods have ended since the oldest began that is remembered
    united_count: int  #: how many of count a union has brought
    period: int  #: the number of the period that runs; 0 without a window


@dataclass(frozen=True)
class Similarity:
    """How much two filters have in common: estimates of numbers of distinct keys."""

    first: float  #: keys of the first filter
    second: float  #: keys of the second one
    united: float  #: keys of both together
    common: float  #: keys that are in both
    jaccard: float  #: common / united; 0 if both are empty
