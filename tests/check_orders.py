#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every ORDER comment in lib/ names its partner, the partner has one that names it back, and the seeded
bug that shows that it is needed exists.

    check_orders.py SOURCE_DIR
"""
import pathlib
import re
import sys

ORDER = re.compile(r"ORDER ([a-z_]+\.[a-z_]+) \(")


def blocks_of(text):
    """Each tag, and the 13 lines from it on."""
    return {match[1]: "".join(text[match.start():].splitlines(True)[:13]) for match in ORDER.finditer(text)}


source = pathlib.Path(sys.argv[1])
bugs = {path.stem for path in source.glob("tests/negative/*/*.bug")}
texts = [path.read_text() for path in sorted(source.glob("lib/**/*.[ch]"))]
blocks = {tag: block for text in texts for tag, block in blocks_of(text).items()}
partners = {tag: re.search(r"pairs with +([a-z_]+\.[a-z_]+)(.*)", block) for tag, block in blocks.items()}
wrong = [] if blocks else ["no ORDER comment found"]
for tag, block in blocks.items():
    partner = partners[tag] and partners[tag][1]
    if partner not in blocks:
        wrong.append(f"{tag}: partner '{partner}' has no ORDER comment")
    elif not partners[partner] or tag not in partners[partner][0]:
        wrong.append(f"{tag}: {partner} does not name it back")
    wrong += [f"{tag}: {bug} is missing" for bug in re.findall(r"negative/([a-z_]+)", block) if bug not in bugs]
print(*wrong, sep="\n", end="\n" if wrong else "")
sys.exit(bool(wrong))
