# SPDX-License-Identifier: MIT
"""What stats() and similarity() return."""
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Stats:
    """The figures of a filter at one moment.

    Figures that are not called estimates are exact while no thread changes the filter.  tamis_stats in tamis.h has the
    same fields, except window.  Filter.seed has the seed, which is a secret.
    """

    kind: str  #: "bloom", "cuckoo" or "counting_bloom"
    layout: Optional[str]  #: "blocked", "classic" or "word" for a Bloom filter without a window, otherwise None
    count: int  #: in a Bloom filter, keys that were new, also from unions; in other kinds, copies; with a window, remembered ones
    estimated_count: float  #: of Bloom, CountingBloom without a window: all distinct keys, estimated from the set bits; else count
    capacity: int  #: the capacity that was asked for
    load: float  #: estimated_count / capacity
    fpp: float  #: the false-positive probability with capacity keys, as it was asked for
    fpp_estimate: float  #: the false-positive probability at present
    bytes: int  #: all memory of the filter
    bits: int  #: the size of the bit arrays of a Bloom filter, or of the tables of a window, in bits
    bits_set: int  #: how many of these bits are 1 (in a large filter an estimate); 0 with a window
    bits_per_key: int  #: how many bits (CountingBloom: counters) a key has in the newest layer of a Bloom filter
    growths: int  #: steps of growth so far
    layers: int  #: the number of layers of a Bloom filter or a window
    generations: int  #: the number of generations of a cuckoo filter
    segments: int  #: the number of segments of a cuckoo filter
    joins: int  #: how often two segments of a cuckoo filter were joined
    fingerprint_bits: int  #: the length of a new fingerprint in a cuckoo filter or a window
    occupancy: float  #: the fraction of the lanes of a cuckoo filter or a window that is in use
    evictions: int  #: how often an entry was moved to make room for a key
    failed_searches: int  #: how often no move made room for a key
    refused_adds: int  #: adds of keys that failed for lack of room, memory or disk space
    lookup_retries: int  #: how often a look-up in a cuckoo filter or a window began again because of other calls
    longest_growth_ns: int  #: the time of the longest step of growth, in nanoseconds
    window: int  #: periods for which keys are remembered; 0: for ever
    oldest_part_age: int  #: how many periods have ended since the oldest remembered one began
    united_count: int  #: how many keys of count came from unions or an intersection: an estimate
    period: int  #: the number of the running period; 0 without a window


@dataclass(frozen=True)
class Similarity:
    """Estimates of the numbers of distinct keys of two filters, and of keys that both have."""

    first: float  #: keys of the first filter
    second: float  #: keys of the second filter
    united: float  #: keys that are in at least one of them
    common: float  #: keys that are in both
    jaccard: float  #: common / united; 0 if both are empty
