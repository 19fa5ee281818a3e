#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the documents say what the tree says.

    check_documents.py TREE         checks them
    check_documents.py TREE TEST    prints, as JSON, the blocks that the test with this path runs

  - A relative link leads to a file that is there, and to a heading that is in it.
  - Each block of code has a mark in the line above, by which it runs, or says why not:
      <!-- quote: PATH -->        it is the text of that file without its licence line, and a test runs the file
      <!-- run: TEST [NAME] -->   the test with this path runs it as it stands, after what it prepares for NAME
      <!-- not run: REASON -->    programs and options of the tree that occur in it exist
    A block without a language is output, a picture or a grammar.
  - CONTRIBUTING.md names every folder, and every folder in one of these.

Each rule is tried first on a document that breaks it.
"""
import collections
import json
import os
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
MARKED = re.compile(r"^(?:<!-- (quote|run|not run): (.+?) -->\n+)?```(\w*)\n(.*?)^```$", re.M | re.S)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
HEADING = re.compile(r"^#+ +(.+)$", re.M)
LICENCE = re.compile(r"^(/\*|#) SPDX-License-Identifier: \S+( \*/)?\n", re.M)
# Where quoted files are, and the tests that name what they run.  (tests/packaging/check_quick.sh runs all of examples/quick.)
TESTED = {"python/examples": "python/tests", "js/examples": "js/tests"}
Block = collections.namedtuple("Block", "document line language mark test name text")


def blocks(document, text):
    for found in MARKED.finditer(text):
        mark, argument, language, code = found.groups()
        test, _, name = (argument or "").partition(" ")
        if mark == "not run":
            test, name = "", argument
        yield Block(document, text.count("\n", 0, found.start()) + 1, language, mark, test, name, code)


def documents(tree):
    """Builds may be made, and removed, meanwhile."""
    for folder, folders, files in os.walk(tree):
        if folder == str(tree):
            folders[:] = [name for name in folders
                          if name != "build" and (name == ".ci" or not name.startswith("."))]
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", "node_modules", "wasm"))
        for name in sorted(files):
            yield pathlib.Path(folder, name).relative_to(tree).as_posix()


def marked(tree, test):
    """The blocks that a test, whose path is relative to the tree, has to run; there are some."""
    tree = pathlib.Path(tree)
    found = [block for name in documents(tree) if name.endswith(".md")
             for block in blocks(name, (tree / name).read_text()) if (block.mark, block.test) == ("run", test)]
    assert found, f"no block is marked with {test}"
    return found


def is_tested(tree, path):
    """Whether a test runs the file that is quoted."""
    tests = [file for folder, tests in TESTED.items() if path.startswith(f"{folder}/")
             for file in (tree / tests).rglob("*.*") if file.suffix in (".js", ".mjs", ".py", ".sh", ".ts")]
    return path.startswith("examples/quick/") or any(pathlib.Path(path).stem in file.read_text() for file in tests)


OPTIONS = {}


def unknown_words(tree, code):
    """Programs of the tree that a block of commands starts, and their options, which are not there."""
    if tree not in OPTIONS:
        OPTIONS[tree] = {word for name in documents(tree) if not name.endswith((".md", ".svg", ".csv", "check_documents.py"))
                         and name.split("/")[0] in ("bench", "examples", "nginx", "redis", "script", "stress", "tests", "tools")
                         for word in [pathlib.Path(name).stem] + re.findall(r"[\w-]+", (tree / name).read_text(errors="replace"))}
    for command in re.split(r"\n|&&|\|", re.sub(r"\s#.*", "", code)):
        program, *words = re.sub(r"^\s*(\w+=\S+\s+)*", "", command).split() or [""]
        built = re.match(r"build/(?:\w+/)*([\w-]+)$", program)
        if built:
            program = built[1] if built[1] in OPTIONS[tree] else program
        if "/" in program and not (tree / program).exists():
            yield program
        if "/" in program or built:
            yield from (word for word in words if re.match("--?[a-z]", word) and
                        not {word.split("=")[0], word.split("=")[0].lstrip("-")} & OPTIONS[tree])


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
    for block in blocks(document, text):
        file, where = tree / block.test, f"{document}:{block.line}"
        if block.mark == "quote" and not file.exists():
            yield f"{where}: a quote of {block.test}, which is not there"
        elif block.mark == "quote" and LICENCE.sub("", file.read_text(), count=1) != block.text:
            yield f"{where}: the quote of {block.test} is not its text"
        elif block.mark == "quote" and not is_tested(tree, block.test):
            yield f"{where}: a quote of {block.test}, which no test runs"
        elif block.mark == "run" and not (file.is_file() and re.search("marked|check_documents", file.read_text())):
            yield f"{where}: {block.test} does not run the blocks that are marked with it"
        elif block.mark == "not run" and block.language == "sh":
            yield from (f"{where}: {word} is not there" for word in unknown_words(tree, block.text))
        elif block.language and not block.mark:
            yield f"{where}: a block of code that says neither how it runs nor why not"


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
    quote = "<!-- quote: {} -->\n\n```c\n{}```\n"
    broken = [
        ("[a](docs/no_such_page.md)\n", "is not there"),
        ("[a](docs/reference/space.md#no-such-heading)\n", "no such heading"),
        (quote.format("examples/quick/share.c", program.replace("20000", "30000")), "is not its text"),
        (quote.format("examples/quick/no.c", "int x;\n"), "is not there"),
        (quote.format("LICENSE", LICENCE.sub("", (tree / "LICENSE").read_text())), "which no test runs"),
        ("```c\nint x;\n```\n", "neither how it runs nor why not"),
        ("<!-- run: tests/no_such_test.py -->\n```sh\ntrue\n```\n", "does not run the blocks"),
        ("<!-- run: tests/packaging/check_quick.sh -->\n```sh\ntrue\n```\n", "does not run the blocks"),
        ("<!-- not run: long -->\n```sh\nscript/no_such_script\n```\n", "is not there"),
        ("<!-- not run: long -->\n```sh\nscript/test --no-such-option\n```\n", "is not there"),
        ("<!-- not run: long -->\n```sh\nX=1 build/release/stress/no-such-program\n```\n", "is not there"),
    ]
    for text, expected in broken:
        found = list(faults(tree, "README.md", "# Title\n" + text))
        if len(found) != 1 or not found[0].endswith(expected) and expected not in found[0]:
            sys.exit(f"this is accepted, or takes another complaint than '{expected}': {found}\n{text}")
    good = "# A title\n[a](docs/reference/space.md#other-capacities) [b](#a-title)\n" + quote.format("examples/quick/share.c", program)
    table = "| `lib/` | `base/` |\n| `docs/` | `manual/` |\n| `include/x/` | |\n"
    if len(list(unnamed(table, ["lib", "lib/base", "include/x", "lib/manual", "base", "x"]))) != 3:
        sys.exit("a folder that CONTRIBUTING.md does not name is accepted, or one that it names is not")
    if list(faults(tree, "README.md", good)):
        sys.exit("a document without a fault is refused")


def main(tree, test=None):
    tree = pathlib.Path(tree)
    if test:
        print(json.dumps([block._asdict() for block in marked(tree, test)]))
        return
    try_rules(tree)
    files = list(documents(tree))
    inner = {os.path.dirname(name) for name in files if 1 <= name.count("/") <= 2}
    names = [name for name in files if name.endswith(".md")]
    found = [fault for name in names for fault in faults(tree, name, (tree / name).read_text())]
    found += unnamed((tree / "CONTRIBUTING.md").read_text(), sorted(inner))
    print("\n".join(found) if found else f"{len(names)} documents")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
