#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a list of words that look like passwords, the same in every run.

    words.py FIRST COUNT    writes the words from number FIRST on, one a line
"""
import sys

CONSONANTS, VOWELS = "bcdfghklmnprstvz", "aeio"
SYLLABLES = [c + v for c in CONSONANTS for v in VOWELS]


def word(i):
    """The words of all numbers below 2**32 are different: the product is another order of these numbers."""
    x = i * 2654435761 % 2**32
    return SYLLABLES[x & 63] + SYLLABLES[x >> 6 & 63] + SYLLABLES[x >> 12 & 63] + str(x >> 18)


def words(first, count):
    return map(word, range(first, first + count))


def main(first, count):
    for begin in range(first, first + count, 100000):
        sys.stdout.write("".join(f"{w}\n" for w in words(begin, min(100000, first + count - begin))))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
