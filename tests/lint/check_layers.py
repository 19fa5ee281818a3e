#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the files of the library keep to its layers, and that no file is too large.

    check_layers.py TREE

The layers are 0, pure values; 1, concurrency; 2, filters; 3, the API.

  - Each file names its layer in its first comment, as in "Layer 1:".  A .c file without one takes its
    header's.
  - A file includes files of its own layer or below.
  - lib/base includes no other folder, lib/table only lib/base, and no folder of a filter another one's.
  - No modules include each other in a circle, and none call each other in one: a .c file calls a
    module if it names a function tamis__... that the other one defines.  NAME.c and NAME.h are one
    module.
  - Each library from outside has one file that includes its headers.
  - No source file of lib/ has more than 600 lines, none of examples/ more than 300, the C header not more than 680,
    that for C++ not more than 1000, and no other source file more than 900.
  - No file at all has more than 256 KiB: what a program has written is not a part of the project.

Each rule is tried first on a copy of the tree that breaks it.
"""
import pathlib
import re
import sys

FIRST_COMMENT = re.compile(r"\A\s*/\*.*?\*/", re.S)
LAYER = re.compile(r"\bLayer (\d):")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)
OUTSIDE = {  # how the headers of a library are named, and the file that may include them
    "ck_": "lib/base/stripe.h",
    "urcu": "lib/base/reclaim.h",
    "xxh": "lib/base/hash.h",
}
DEFINITION = re.compile(r"^(?![ \t#}]|extern|typedef)[^\n;{}]*?(?:\n[ \t]+[^;{}\n]*)*?\b(tamis__\w+)\b\s*"
                        r"(?:\([^;{}]*\)\s*\{|(?:\[[^\]]*\])*\s*[=;])", re.M)
# Tables of functions.  To name one is no call: calls through pointers may go up (docs/internals/concurrency.md).
TABLES = re.compile(r"tamis__\w+_kind|tamis__bloom_calls|tamis__bloom_layered|tamis__cuckoo_(any|growable|fixed)")
KNOWN_CALLS = {  # in a circle, and why
}
MOST_LINES = {"lib": 600, "examples": 300, "include": 900, "bench": 900, "stress": 900, "tests": 900, "tools": 900,
              "include/tamis/tamis.h": 680, "include/tamis/tamis.hpp": 1000}
MOST_BYTES = 256 * 1024


def read(tree):
    """The files of the tree, as a mapping from path to text, which is bytes where it is no UTF-8."""
    files = {}
    for top in sorted(tree.iterdir()):
        if top.name in ("build", ".git"):
            continue
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts):
                data = path.read_bytes()
                try:
                    data = data.decode()
                except UnicodeDecodeError:
                    pass
                files[path.relative_to(tree).as_posix()] = data
    return files


def is_source(path):
    return path.startswith("tests/") or re.search(r"\.(c|h|cpp|hpp|py|sh)$", path)


def layer_of(files, path):
    for candidate in (path, re.sub(r"\.c$", ".h", path)):
        comment = FIRST_COMMENT.match(files.get(candidate, ""))
        layer = LAYER.search(comment.group()) if comment else None
        if layer:
            return int(layer.group(1))
    return None


def folder(path):
    return path.split("/")[1]


def circle(graph):
    """The modules of a circle, in order, or nothing."""
    done = set()

    def search(module, path):
        if module in path:
            return path[path.index(module):] + [module]
        if module in done:
            return None
        for other in sorted(graph[module]):
            found = search(other, path + [module])
            if found:
                return found
        done.add(module)
        return None

    for module in sorted(graph):
        found = search(module, [])
        if found:
            return found
    return None


def called(files):
    """For each module of lib/ those that its .c file calls."""
    code = {path[:-2]: re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", " ", text, flags=re.S)
            for path, text in files.items() if re.match(r"lib/.*\.c$", path)}
    home = {name: module for module, text in code.items() for name in DEFINITION.findall(text)}
    return {module: {home[name] for name in re.findall(r"\btamis__\w+", text)
                     if name in home and not TABLES.fullmatch(name)} - {module}
            for module, text in code.items()}


def circles_of_calls(files):
    graph = called(files)
    for caller, other in KNOWN_CALLS:
        if other not in graph.get(caller, ()):
            yield f"{caller}: does not call {other} any more, which is excepted"
        graph.get(caller, set()).discard(other)
    found = circle(graph)
    if found:
        yield "these call each other in a circle: " + ", ".join(found)


def violations(files):
    for path, text in files.items():
        if len(text) > MOST_BYTES:
            yield f"{path}: {len(text)} bytes, more than {MOST_BYTES}"
        most = MOST_LINES.get(path, MOST_LINES.get(path.split("/")[0]))
        if isinstance(text, str) and most and is_source(path) and text.count("\n") > most:
            lines = text.count("\n")
            yield f"{path}: {lines} lines, more than {most}"

    library = [path for path in files if re.match(r"lib/.*\.[ch]$", path)]
    layers = {path: layer_of(files, path) for path in library}
    graph = {}
    for path in library:
        if layers[path] is None:
            yield f"{path}: its first comment names no layer"
        module = graph.setdefault(path[:-2], set())
        for quote, name in INCLUDE.findall(files[path]):
            for prefix, only in OUTSIDE.items():
                if any(part.startswith(prefix) for part in name.split("/")) and path != only:
                    yield f"{path}: includes {name}, which only {only} may"
            included = f"lib/{name}"
            if quote != '"' or name == "tamis/tamis.h":
                continue
            if included not in files:
                yield f"{path}: includes {name}, which is not named from lib/"
                continue
            if None not in (layers[path], layers[included]) and layers[included] > layers[path]:
                yield (f"{path}: includes {name} of layer {layers[included]}, above its own, "
                       f"{layers[path]}")
            below = {"base": [], "table": ["base"]}.get(folder(path), ["base", "table"])
            if path.count("/") == 2 and folder(included) != folder(path) and folder(included) not in below:
                yield f"{path}: includes {name} of another folder"
            if included[:-2] != path[:-2]:
                module.add(included[:-2])
    found = circle({module: others & graph.keys() for module, others in graph.items()})
    if found:
        yield "these include each other in a circle: " + ", ".join(found)
    yield from circles_of_calls(files)


def without_layer(files):
    files["lib/base/word.h"] = files["lib/base/word.h"].replace("Layer 1:", "Layer one:")


def appended(path, text):
    def change(files):
        files[path] += text
    return change


# What breaks a rule, and what must be said of it then.
BROKEN = [
    (without_layer, r"lib/base/word\.h: its first comment names no layer"),
    (appended("lib/cuckoo/geometry.h", '#include "base/stripe.h"\n'),
     r"lib/cuckoo/geometry\.h: includes base/stripe\.h of layer 1, above its own, 0"),
    (appended("lib/cuckoo/lookup.c", '#include "bloom/geometry.h"\n'),
     r"lib/cuckoo/lookup\.c: includes bloom/geometry\.h of another folder"),
    (appended("lib/base/memory.c", '#include "cuckoo/bucket.h"\n'),
     r"lib/base/memory\.c: includes cuckoo/bucket\.h of another folder"),
    (appended("lib/table/search.h", '#include "window/bucket.h"\n'),
     r"lib/table/search\.h: includes window/bucket\.h of another folder"),
    (appended("lib/base/word.h", '#include "table/lanes.h"\n'),
     r"lib/base/word\.h: includes table/lanes\.h of another folder"),
    (appended("lib/cuckoo/memory.c", '#include "cuckoo/segment.h"\n'),
     r"these include each other in a circle: .*lib/cuckoo/segment"),
    (appended("lib/cuckoo/memory.c", "void x(void)\n{\n  tamis__segment_memory_release(0, 0, 0);\n}\n"),
     r"these call each other in a circle: .*lib/cuckoo/slabs"),
    (appended("lib/bloom/capacity.c", "int x(struct bloom *b)\n{\n  return tamis__layers_open(b, b, 1);\n}\n"),
     r"these call each other in a circle: .*lib/bloom/layers"),
    (appended("lib/cuckoo/table.h", "#include <ck_pr.h>\n"),
     r"lib/cuckoo/table\.h: includes ck_pr\.h, which only lib/base/stripe\.h may"),
    (appended("lib/base/counter.c", "#include <urcu/system.h>\n"),
     r"lib/base/counter\.c: includes urcu/system\.h, which only lib/base/reclaim\.h may"),
    (appended("lib/tamis.c", "#include <xxhash.h>\n"),
     r"lib/tamis\.c: includes xxhash\.h, which only lib/base/hash\.h may"),
    (appended("lib/tamis.c", "\n" * 600), r"lib/tamis\.c: \d+ lines, more than 600"),
    (appended("tests/unit/base/test_hash.c", "\n" * 900), r"tests/unit/base/test_hash\.c: \d+ lines, more than 900"),
    (appended("include/tamis/tamis.h", "\n" * 680), r"include/tamis/tamis\.h: \d+ lines, more than 680"),
    (appended("include/tamis/tamis.hpp", "\n" * 1000), r"include/tamis/tamis\.hpp: \d+ lines, more than 1000"),
    (appended("stress/linear.c", "\n" * 900), r"stress/linear\.c: \d+ lines, more than 900"),
    (appended("README.md", "-" * 2 ** 18), r"README\.md: \d+ bytes, more than 262144"),
]


def main(tree):
    files = read(pathlib.Path(tree))
    bad = list(violations(files))
    for change, said in BROKEN:
        broken = dict(files)
        change(broken)
        new = [line for line in violations(broken) if line not in bad]
        if not any(re.match(said, line) for line in new):
            bad.append(f"a tree that breaks a rule passes: '{said}' is not among {new}")
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
