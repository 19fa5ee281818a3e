#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the tests that start threads have the mark by which ThreadSanitizer gets them.

    check_threads.py TREE

Under ThreadSanitizer a test program runs only its tests with the mark TEST_WITH_THREADS of
tests/support/unit.h, if it has any, as nothing can be found in the other ones.  So in such a program each
test that starts a thread, by itself or by what it calls, must have the mark, and no other one.

The check is tried first on programs that lack a mark.
"""
import pathlib
import re
import sys

STARTS = {"pthread_create", "__real_pthread_create", "harness_run"}
INCLUDE = re.compile(r'^#include "(\w+\.h)"', re.M)
FUNCTION = re.compile(r"^(?!TEST|EACH)\w[^;{}()]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
TEST = re.compile(r"^((?:TEST|EACH)\w*)\((\w+)[^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
MARK = re.compile(r"_WITH_THREADS")


def with_headers(tests, path, seen):
    """The text of a file and of the headers in tests/ that it includes."""
    seen.add(path)
    text = path.read_text()
    for name in INCLUDE.findall(text):
        for header in {path.parent / name, tests / "support" / name} - seen:
            if header.exists():
                text += with_headers(tests, header, seen)
    return text


def starting(text):
    """The functions that start threads."""
    calls = {name: set(re.findall(r"\w+", body)) for name, body in FUNCTION.findall(text)}
    found = set(STARTS)
    while more := {name for name, words in calls.items() if words & found} - found:
        found |= more
    return found


def faults(name, program, text):
    """What is wrong with the marks of a program, whose text with that of its headers is `text`."""
    tests = [(test, bool(MARK.search(kind)), body) for kind, test, body in TEST.findall(program)]
    if not any(marked for _, marked, _ in tests):
        return []
    found = starting(text)
    wrong = {True: "starts no thread, but has the mark", False: "starts threads, but lacks the mark"}
    return [f"{name}: {test} {wrong[marked]}"
            for test, marked, body in tests if marked != bool(set(re.findall(r"\w+", body)) & found)]


def main(tree):
    folder = pathlib.Path(tree) / "tests"
    wrong = []
    tried = 0
    for path in sorted(folder.glob("**/test_*.c")):
        program, text = path.read_text(), with_headers(folder, path, set())
        marks = [mark for mark in MARK.finditer(program)]
        for mark in marks if len(marks) > 1 else []:
            tried += 1
            unmarked = program[:mark.start()] + program[mark.end():]
            if not faults(path.name, unmarked, text):
                wrong.append(f"{path.name}: a lost mark is not found: {program[mark.start():][:60]!r}")
        wrong += faults(path.name, program, text)
    if not tried:
        wrong.append("no program has marks")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


sys.exit(main(sys.argv[1]))
