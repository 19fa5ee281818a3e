#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library loads nothing that the format does not allow: in small saved filters of every form each number, and the order,
the type and the size of each part are changed, with right sums, and what loads is read by the reader in Python, too.

    test_allowed.py HOSTILE [NAME ...]      HOSTILE: the program test_hostile, which makes the changes; NAME: how the
                                            names of the files begin that are changed (left out: all)
"""
import os
import pathlib
import struct
import subprocess
import sys

sys.dont_write_bytecode = True  # no files in the tree

import tamis_reader

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fuzz/corpus"
LEFT_OUT = ("-own", "-live", "found-", "cuckoo-4", "cuckoo-5", "cuckoo-6", "-empty", "generations-3")  # as others are


def why_refused(data):
    """Why the reader does not take it; None: it does."""
    try:
        return None if tamis_reader.Filter(data).size == len(data) else "more follows"
    except (tamis_reader.Corrupt, tamis_reader.Unsupported) as error:
        return f"{type(error).__name__}: {error}"


def main(hostile, *names):
    files = [path for path in sorted(CORPUS.iterdir())
             if path.name.startswith(names or "") and not any(part in path.name for part in LEFT_OUT)]
    read, write = os.pipe()
    command = [hostile, "--mutations", "0", "--each", "--record", f"/dev/fd/{write}", *files]
    loaded, why = 0, None
    with subprocess.Popen(command, pass_fds=[write], stdout=subprocess.PIPE, text=True) as program, open(read, "rb") as source:
        os.close(write)
        while not why and (head := source.read(8)):
            why, loaded = why_refused(source.read(struct.unpack("<ii", head)[0])), loaded + 1
        if why:
            program.kill()
        assert not why, f"the library loads what the format does not allow: {why}"
        said = program.stdout.read()
    assert program.returncode == 0 and loaded > 100 * len(files), f"{program.returncode}: {said}"
    print(f"{said.strip()}, {loaded} loaded")


if __name__ == "__main__":
    main(*sys.argv[1:])
