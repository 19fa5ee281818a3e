#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares dedup.py with an exact set, on the paragraphs of what Debian's packages have below /usr/share.

    scenario.py [--documents N] [--processes N] [--fpp P]

It prints a table, and fails if the filter has kept a document that the set has dropped, or has dropped more than its
rate says.
"""
import argparse
import gzip
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = ["/usr/share/common-licenses", "/usr/share/doc", "/usr/share/man", "/usr/share/perl", "/usr/lib/python3",
           "/usr/lib/python3.11", "/usr/include"]
ENDS = ("", ".gz", ".txt", ".md", ".rst", ".html", ".py", ".pm", ".pl", ".h")


def paragraphs(most):
    """Paragraphs of text of five words and more."""
    count = 0
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix not in ENDS and path.name not in ("copyright", "README"):
                continue
            try:
                data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
                text = data.decode()
            except (OSError, EOFError, UnicodeDecodeError):
                continue
            for paragraph in text.split("\n\n"):
                if len(paragraph.split(None, 5)) > 5:
                    yield json.dumps({"source": str(path), "text": paragraph})
                    count += 1
                    if count == most:
                        return


def make(folder, most):
    """A corpus in four files, each with every fourth document; how many there are."""
    files = [open(folder / f"part{i}.jsonl", "w") for i in range(4)]
    count = 0
    for count, line in enumerate(paragraphs(most), 1):
        print(line, file=files[count % 4])
    for file in files:
        file.close()
    return count


def run(folder, name, *options):
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    out = subprocess.run([sys.executable, "-B", HERE / "dedup.py", "--out", folder / name, *map(str, options),
                          *sorted(folder.glob("*.jsonl"))], check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(out)
    result["seconds"] = time.monotonic() - begun
    result["processor"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    kept = [json.loads(line) for path in (folder / name).glob("*.jsonl") for line in path.open()]
    assert len(kept) == result["kept"]
    return result, kept


def leaves(status, out, *paths):
    """The program ends with this status, and its input files stay as they are."""
    before = [path.read_bytes() for path in paths if path.is_file()]
    ended = subprocess.run([sys.executable, "-B", HERE / "dedup.py", "--out", out, *paths], input=b"", capture_output=True)
    return ended.returncode == status and before == [path.read_bytes() for path in paths if path.is_file()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=30_000, help="at most")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--fpp", type=float, default=1e-6)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from dedup import normalised

    with tempfile.TemporaryDirectory(prefix="tamis-example.") as name:
        folder = pathlib.Path(name)
        count = make(folder, options.documents)
        exact, of_exact = run(folder, "exact", "--exact")
        rough, of_filter = run(folder, "filter", "--capacity", count, "--fpp", options.fpp, "--processes",
                               options.processes)
        one = folder / "part0.jsonl"
        assert leaves(2, folder, one) and leaves(2, folder / "new", one, folder / "exact" / one.name)
        assert leaves(2, folder / "new", pathlib.Path("/dev/stdin"))
        (folder / "linked").mkdir()
        os.link(one, folder / "linked" / one.name)
        assert leaves(0, folder / "linked", one)
    texts, expected = [normalised(one["text"]) for one in of_filter], {normalised(one["text"]) for one in of_exact}
    wrong = exact["kept"] - rough["kept"]
    print(f"{count} documents, {exact['kept']} different ones\n")
    print("| | memory | seconds | processor | wrongly dropped |\n|---|---|---|---|---|")
    for title, result, dropped in (("a set of digests, one process", exact, 0),
                                   (f"one filter, {options.processes} processes, fpp {options.fpp:g}", rough, wrong)):
        print(f"| {title} | {result['bytes'] / 2**20:.1f} MiB | {result['seconds']:.1f} | {result['processor']:.1f} s"
              f" | {dropped} |")
    mean = count * options.fpp
    ok = len(set(texts)) == len(texts) and set(texts) <= expected and 0 <= wrong <= mean + 5 * math.sqrt(mean) + 5
    return 0 if ok and exact["documents"] == rough["documents"] == count else 1


if __name__ == "__main__":
    sys.exit(main())
