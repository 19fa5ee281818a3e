#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every ORDER comment in lib/ names its partner, the partner has one that names it back, and the mutant
that shows that it is needed exists.  compat.arm64 looks at each access, and its mutants exist.  The
argument stands once: at one end of each pair, or at both where they differ.  An end without it says
"pairs with X, whose comment says why".

    check_orders.py SOURCE_DIR

Each rule is tried first on comments that break it.
"""
import pathlib
import re
import sys

ORDER = re.compile(r"ORDER ([a-z_]+\.[a-z_]+) \(")
FIELDS = ("pairs with", "makes visible", "if weakened", "checked by")
ARGUMENT = {"makes visible", "if weakened"}


def blocks_of(text):
    """Each tag with its fields, from a comment's text without its stars."""
    blocks = {}
    for comment in re.findall(r"/\*.*?\*/", text, re.S):
        for part in re.split(r"(?=ORDER [a-z_]+\.[a-z_]+ \()", comment)[1:]:
            part = re.sub(r"\s*\*/?\s+|\s+", " ", part)
            pieces = re.split(f" ({'|'.join(FIELDS)}) ", part)
            blocks[ORDER.match(part)[1]] = dict(zip(pieces[1::2], pieces[2::2]))
    return blocks


def faults(texts, mutants, accesses):
    blocks = {tag: fields for text in texts for tag, fields in blocks_of(text).items()}
    if not blocks:
        yield "no ORDER comment found"
    for tag, fields in blocks.items():
        if tag.replace(".", "_") not in accesses:
            yield f"{tag}: no function in tests/compat/arm64_orders.c"
        named = fields.get("pairs with", "")
        partner = (re.match(r"[a-z_]+\.[a-z_]+", named) or [None])[0]
        if partner not in blocks:
            yield f"{tag}: partner '{partner}' has no ORDER comment"
        elif tag not in blocks[partner].get("pairs with", ""):
            yield f"{tag}: {partner} does not name it back"
        argues, points = ARGUMENT & fields.keys(), "whose comment says why" in named
        if points == ("if weakened" in argues) or points and argues:
            yield f"{tag}: either it has the argument, or it names the partner that has it"
        elif points and not ARGUMENT <= blocks.get(partner, {}).keys():
            yield f"{tag}: {partner} has no argument"
        elif not points and "makes visible" not in argues | blocks.get(partner, {}).keys():
            yield f"{tag}: neither end says what becomes visible"
        for field in ARGUMENT & fields.keys():
            if re.match(r"see \S+$", fields[field].strip()):
                yield f"{tag}: '{field} {fields[field].strip()}' is no argument"
        for mutant in re.findall(r"mutants/([a-z_0-9]+)", fields.get("checked by", "")):
            if mutant not in mutants:
                yield f"{tag}: {mutant} is missing"


WHOLE = """/* ORDER x.load (acquire)
 *   pairs with     x.store
 *   makes visible  all
 *   if weakened    it is not
 *   checked by     mutants/some */
/* ORDER x.store (release)
 *   pairs with     x.load, whose comment says why
 *   checked by     mutants/some */
"""
BROKEN = [  # what is replaced by what, and what must be said of it then
    (", whose comment says why", "", "x.store: either"), ("mutants/some", "mutants/no", "no is missing"),
    ("    it is not", "    see there", "is no argument"), (" *   if weakened    it is not\n", "", "x.load: either"),
    (" *   makes visible  all\n", "", "x.load has no argument"), ("x.load, whose", "x.lode, whose", "has no ORDER"),
    ("with     x.store", "with     x.load", "name it back"), ("x.", "y.", "no function"),
]


def main(source):
    source = pathlib.Path(source)
    mutants = set(re.findall(r"^\[(\w+)\]", "".join(map(pathlib.Path.read_text, source.glob("tests/mutants/*.bugs"))), re.M))
    compat = source / "tests/compat"
    accesses = re.findall(r"\b(?:load|store|change)__(\w+)", (compat / "arm64_orders.c").read_text())
    wrong = list(faults([path.read_text() for path in sorted(source.glob("lib/**/*.[ch]"))], mutants, accesses))
    bugs = re.search(r"^BUGS = {.*?}", (compat / "check_arm64.py").read_text(), re.M | re.S)[0]
    wrong += [f"check_arm64.py: {bug} is missing" for bug in re.findall(r'"(\w+)":', bugs) if bug not in mutants]
    example = {"some"}, {"x_load", "x_store"}
    wrong += faults([WHOLE], *example)
    wrong += [f"this is accepted: {new or 'without ' + old}" for old, new, said in BROKEN
              if not any(said in fault for fault in faults([WHOLE.replace(old, new)], *example))]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
