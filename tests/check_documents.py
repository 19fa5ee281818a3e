#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the documents say what the tree says.

    check_documents.py TREE

  - A relative link leads to a file that is there, and to a heading that is in it.
  - A block below `<!-- quote: PATH -->` is the text of that file without its licence line.
  - The C and C++ programs of README.md are quotes.
  - What the blocks of commands in README.md start by `script/NAME` is there.
  - CONTRIBUTING.md names every folder, and every folder in one of these.

Each rule is tried first on a document that breaks it.
"""
import os
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
QUOTE = re.compile(r"^<!-- quote: (\S+) -->\n+```\w*\n(.*?)^```$", re.M | re.S)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
HEADING = re.compile(r"^#+ +(.+)$", re.M)
LICENCE = re.compile(r"^(/\*|#) SPDX-License-Identifier: \S+( \*/)?\n", re.M)


def anchors(text):
    """Those of headings, as GitHub and GitLab make them, and those that are written down."""
    made = {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in HEADING.findall(text)}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


def faults(tree, document, text):
    """What is wrong with a document; its path is relative to the tree."""
    outside_code = BLOCK.sub("", text)
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", outside_code)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = (tree / document).parent / path if path else tree / document
        if not file.exists():
            yield f"{document}: a link to {target}, which is not there"
        elif heading:
            own = text if not path else file.read_text()
            if heading not in anchors(BLOCK.sub("", own)):
                yield f"{document}: a link to {target}, which has no such heading"
    for path, quoted in QUOTE.findall(text):
        file = tree / path
        if not file.exists():
            yield f"{document}: a quote of {path}, which is not there"
        elif LICENCE.sub("", file.read_text(), count=1) != quoted:
            yield f"{document}: the quote of {path} is not its text"
    if document == "README.md":
        for language, block in BLOCK.findall(QUOTE.sub("", text)):
            if language in ("c", "cpp"):
                yield f"{document}: a program that is no quote: {block.splitlines()[0]}"
            if language == "sh":
                for name in re.findall(r"^script/\S+", block, re.M):
                    if not (tree / name).exists():
                        yield f"{document}: {name} is not there"


def unnamed(text, folders):
    """Folders that no row of a table of CONTRIBUTING.md names, as `lib/` or, in the row of that, `base/`."""
    for folder in folders:
        top, _, name = folder.partition("/")
        rows = [row for row in text.splitlines() if row.startswith(f"| `{top}/")]
        if not any(f"`{name or top}/`" in row or f"`{folder}/`" in row for row in rows):
            yield f"CONTRIBUTING.md: {folder}/ is not named"


def try_rules(tree):
    """Each of these has one fault, which must be found; the last one has none."""
    program = LICENCE.sub("", (tree / "examples/quick/share.c").read_text(), count=1)
    quote = "<!-- quote: examples/quick/share.c -->\n\n```c\n{}```\n"
    broken = [
        ("[a](docs/no_such_page.md)\n", "is not there"),
        ("[a](docs/space.md#no-such-heading)\n", "no such heading"),
        (quote.format(program.replace("20000", "30000")), "is not its text"),
        ("<!-- quote: examples/quick/no.c -->\n\n```c\nint x;\n```\n", "is not there"),
        ("```c\nint x;\n```\n", "is no quote"),
        ("```sh\nscript/no_such_script\n```\n", "is not there"),
    ]
    for text, expected in broken:
        found = list(faults(tree, "README.md", "# Title\n" + text))
        if len(found) != 1 or not found[0].endswith(expected) and expected not in found[0]:
            sys.exit(f"this is accepted, or takes another complaint than '{expected}': {found}\n{text}")
    good = "# A title\n[a](docs/space.md#other-capacities) [b](#a-title)\n" + quote.format(program)
    table = "| `lib/` | `base/` |\n| `docs/` | `manual/` |\n| `include/x/` | |\n"
    if len(list(unnamed(table, ["lib", "lib/base", "include/x", "lib/manual", "base", "x"]))) != 3:
        sys.exit("a folder that CONTRIBUTING.md does not name is accepted, or one that it names is not")
    if list(faults(tree, "README.md", good)):
        sys.exit("a document without a fault is refused")


def main(tree):
    tree = pathlib.Path(tree)
    try_rules(tree)
    names, inner = [], set()
    for folder, folders, files in os.walk(tree):
        # Builds may be made, and removed, meanwhile.
        if folder == str(tree):
            folders[:] = [name for name in folders
                          if name != "build" and (name == ".ci" or not name.startswith("."))]
        folders[:] = [name for name in folders if name not in ("__pycache__", "node_modules", "wasm")]
        path = pathlib.Path(folder).relative_to(tree).as_posix()
        inner |= {path} if files and path != "." and path.count("/") < 2 else set()
        names += [(pathlib.Path(folder) / name).relative_to(tree).as_posix() for name in files
                  if name.endswith(".md")]
    found = [fault for name in sorted(names) for fault in faults(tree, name, (tree / name).read_text())]
    found += unnamed((tree / "CONTRIBUTING.md").read_text(), sorted(inner))
    print("\n".join(found) if found else f"{len(names)} documents")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
