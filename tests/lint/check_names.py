#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds names in comments and documents that nothing has any more.

    check_names.py TREE

Looked at are what stands in `backticks` and in pictures in documents, and the words of comments in C
and C++ that look like the project's identifiers: with an underscore, as a call, as in name(), or as a
file, as in name.c.  Each must be a word of some program, script or test outside of its comments, or a
file.  A name that a document gives next to a file, as in `growth.c`, `name`, must be in that file.

The check is tried first on texts with names that nothing has.
"""
import pathlib
import re
import sys

ELSEWHERE = {  # expressions for names that no code here has, and where they are from
    r".*quotient.*|TAMIS_QUOTIENT": "a kind that is not there, which docs/internals/adding-a-kind.md adds",
    "call_rcu|synchronize_rcu": "liburcu",
    "ck_spinlock_fas": "ConcurrencyKit",
    "compare_exchange|may_alias|longjmp|stdatomic.h|linux/magic.h": "C, C++, gcc and Linux",
    "smaps_rollup": "a file of Linux's /proc",
    "max_slot_wal_keep_size": "a setting of PostgreSQL",
    "PKG_CONFIG_PATH": "pkg-config",
    "no_sanitize": "an attribute that is not used",
    "program.c": "a user's program",
    "tamis_verb_noun|.*(NAME|TOPIC|KIND__TAG).*|tamis__name": "the form of a name",
    "blocked_(2x3|3x2)_(add|contains)": "made by CALLS in lib/bloom/operations.c",
    "TAMIS_(REDIS|VALKEY)_SERVER": "made in redis/tests/server.py",
}
SOURCE = re.compile(r"\.(c|h|cpp|hpp)$")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
FILE = r"[\w./-]*\w\.(?:c|h|cpp|hpp|py|sh)\b"
NAME = re.compile(rf"(?<![\w.*])(?:{FILE}|[A-Za-z]\w*_\w*|\w+(?=\(\)))")
BY_FILE = re.compile(rf"`({FILE})`, `(\w+)(?:\(\))?`")


def read(tree):
    files = {}
    for path in sorted(tree.rglob("*")):
        parts = path.relative_to(tree).parts
        if parts[0] in ("build", ".git") or {"__pycache__", "node_modules", "wasm"} & set(parts) or not path.is_file():
            continue
        try:
            files["/".join(parts)] = path.read_text()
        except UnicodeDecodeError:
            continue
    return files


def code(path, text):
    """What is no comment."""
    return COMMENT.sub(" ", text) if SOURCE.search(path) else re.sub(r"^\s*#.*$", "", text, flags=re.M)


def looked_at(path, text):
    if path.endswith(".md"):
        blocks = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
        pictures = [block for language, block in blocks.findall(text) if not language]
        return re.findall(r"`([^`\n]+)`", blocks.sub("", text)) + pictures
    return [re.sub(r"https?://\S+", "", comment) for comment in COMMENT.findall(text)
            ] if SOURCE.search(path) else []


class Names:
    """All that there is."""

    def __init__(self, files):
        texts = {path: code(path, text) for path, text in files.items()
                 if not path.endswith((".md", "tests/lint/check_names.py"))}
        self.words = {word for text in texts.values() for word in re.findall(r"\w+", text)}
        self.words |= {re.sub(r"\W", "_", pathlib.PurePath(path).stem) for path in files}
        self.files = "/" + "\n/".join(files) + "\n"
        # What macros and scripts put names together from: x_##sort, name##_x, "tamis_" + name.
        self.stems = {stem for text in texts.values()
                      for stem in re.findall(r"(\w{4,}_)(?:##|\$\{|\{)", text)} | {"tamis_"}
        self.ends = {end for text in texts.values() for end in re.findall(r"##(_\w+)", text)} | {"_total"}

    def is_put_together(self, name):
        pairs = [(stem, end) for stem in self.stems | {""} if name.startswith(stem)
                 for end in self.ends | {""} if name.endswith(end)]
        return any((stem or end) and name[len(stem):len(name) - len(end)] in self.words
                   for stem, end in pairs)

    def has(self, name):
        if any(re.fullmatch(form, name) for form in ELSEWHERE):
            return True
        if "." in name:
            return f"/{name}\n" in self.files
        if name.endswith("_"):  # tamis__x_*
            return any(word.startswith(name) for word in self.words)
        return (name in self.words or self.is_put_together(name)
                or name.isupper() and any(word.endswith("_" + name) for word in self.words))


def dead(names, files, path, text):
    for part in looked_at(path, text):
        for name in NAME.findall(part):
            if not names.has(name.lstrip("./")):
                yield f"{path}: nothing is called {name}"
    if path.endswith(".md"):
        for file, name in BY_FILE.findall(text):
            holders = [each for each in files if ("/" + each).endswith("/" + file)]
            if holders and not any(name in re.findall(r"\w+", code(each, files[each])) for each in holders):
                yield f"{path}: {file} has no {name}"


# What has one dead name each, and two texts that have none.
BROKEN = [("lib/base/x.c", "/* As in segment_copied_away. */"), ("lib/base/x.c", "// nolonger() waits"),
          ("lib/base/x.h", "/*\n * see no_such_file.c\n */"), ("docs/x.md", "calls `tamis__gone` then"),
          ("docs/x.md", "```\na ──► tamis__gone\n```\n"),
          ("docs/x.md", "| `growth.c`, `stripe_lock` | is not there |")]
WHOLE = [("lib/base/x.c", "/* stripe_lock() of stripe.h, tamis_add */ int no_such_name;"),
         ("docs/x.md", "`growth.c`, `split_locked` and `tamis__cuckoo_add_growable`")]


def main(tree):
    files = read(pathlib.Path(tree))
    names = Names(files)
    found = [fault for path, text in files.items() for fault in dead(names, files, path, text)]
    found += [f"this is accepted: {text}" for path, text in BROKEN
              if len(list(dead(names, files, path, text))) != 1]
    found += [fault for path, text in WHOLE for fault in dead(names, files, path, text)]
    print(*sorted(set(found)), sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
