#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Drops documents of a corpus if the same normalised text came before.

    dedup.py --out FOLDER [--capacity N] [--fpp P] [--processes N] [--exact] FILE.jsonl ...

Each line of a file is a JSON object with a member "text".  Several processes share one filter, so of all documents
with the same text exactly one is kept, whichever process comes first.  For each file, a file of the same name in FOLDER gets
the lines that are kept, in their order, unchanged.

Two texts are the same if they differ only in case, spaces, punctuation and compatible forms of characters.
--exact uses a set of 16-byte digests in one process instead, to compare its memory and results with the filter's.
"""
import argparse
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import resource
import sys
import tempfile
import unicodedata

import tamis

SEPARATORS = re.compile(r"[\W_]+")
BATCH = 1000  # documents
PART = 16 << 20  # bytes of a file that a process takes at a time


def normalised(text):
    return SEPARATORS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


class Exact:
    """Answers like a filter, but without false positives."""

    def __init__(self):
        self.digests = set()

    def add_many(self, texts):
        answers = []
        for text in texts:
            digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
            answers.append(digest not in self.digests)
            self.digests.add(digest)
        return answers


def batches(file, end):
    """Lines of a file, up to a position, and their texts."""
    lines, texts = [], []
    while file.tell() < end and (line := file.readline()):
        lines.append(line)
        texts.append(normalised(json.loads(line)["text"]))
        if len(lines) == BATCH:
            yield lines, texts
            lines, texts = [], []
    yield lines, texts


def keep(seen, path, begin, end, out):
    """Writes the documents of a part of a file that nobody has met before; how many there were, and are kept."""
    count = kept = 0
    with open(path, "rb") as file, open(out, "wb") as kept_file:
        if begin > 0:
            file.seek(begin - 1)
            file.readline()  # the line that the part before has begun
        for lines, texts in batches(file, end):
            for line, is_new in zip(lines, seen.add_many(texts)):
                if is_new:
                    kept_file.write(line)
                    kept += 1
            count += len(lines)
    return count, kept


def parts(paths, folder):
    for path in paths:
        size = os.path.getsize(path)
        for number, begin in enumerate(range(0, size, PART)):
            yield path, begin, min(begin + PART, size), folder / f"{path.name}.{number:06}"


seen = None  # the filter of a worker


def open_filter(path):
    global seen
    seen = tamis.shared(path)


def work(part):
    return keep(seen, *part)


def join(todo, paths, folder, out):
    """The parts of each file become one file, which takes its name when it is complete."""
    for path in paths:
        with open(folder / "whole", "wb") as whole:  # no name of a part
            for of, _, _, part in todo:
                if of == path:
                    whole.write(part.read_bytes())
        os.replace(folder / "whole", out / path.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--capacity", type=int, default=10_000_000, help="different documents at most")
    parser.add_argument("--fpp", type=float, default=1e-6, help="the part of the documents that is dropped wrongly")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    if len({path.name for path in options.files}) < len(options.files):
        parser.error("two files have the same name, and so would have one file in --out")
    for path in options.files:
        if not path.is_file():
            parser.error(f"{path} is no file that several processes can read")
    options.out.mkdir(parents=True, exist_ok=True)
    for path in options.files:
        if path.resolve() == (options.out / path.name).resolve():
            parser.error(f"{path} is in --out, and would be overwritten")
    with tempfile.TemporaryDirectory(dir=options.out) as name:
        folder = pathlib.Path(name)
        todo = list(parts(options.files, folder))
        if options.exact:
            exact, before = Exact(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            counts = [keep(exact, *part) for part in todo]
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before << 10
        else:
            path = folder / "seen"  # no name of a part
            filter = tamis.shared(path, options.capacity, options.fpp)
            with multiprocessing.get_context("spawn").Pool(options.processes, open_filter, (path,)) as pool:
                counts = pool.map(work, todo, chunksize=1)
            memory = filter.nbytes
        join(todo, options.files, folder, options.out)
    count, kept = map(sum, zip(*counts)) if counts else (0, 0)
    print(json.dumps({"documents": count, "kept": kept, "bytes": memory}))


if __name__ == "__main__":
    sys.exit(main())
