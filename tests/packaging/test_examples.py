#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the commands, the C and the CMake of the documents as they stand: each block that is marked with this file
(check_documents.py), in a folder of its own that has what PREPARED says, with the command and the library as they are
installed.  Then CHECKED must hold.

    test_examples.py SOURCE_DIR BUILD_DIR [NAME ...]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lint"))
from check_documents import marked  # noqa: E402

# What stands in a document for a folder of the system.
SYSTEM = re.compile(r"(/etc/nginx|/srv/www|/usr/local)\b")
PROGRAM = 'cp "$SOURCE/examples/quick/share.c" program.c\n'
RUNS = '[ "$(./a.out)" = "10000 of 20000 handled" ]\n'
TREE = 'for name in "$SOURCE"/*; do [ "${name##*/}" = build ] || ln -s "$name" .; done\n'
# NAME: what the folder has before the block runs, in commands.
PREPARED = {
    "size": "", "counting": "",
    "command": r"""
seq 1000 >a.txt; seq 500 1500 >b.txt; seq 2000 | shuf -n 500 >mon.txt; seq 900 >tue.txt; seq 800 >wed.txt
(seq 3000; seq 3000) >access.log; cp access.log error.log; seq 4000 | gzip >x.gz; cp a.txt known.txt; cp b.txt today.txt
seq 700 >new.txt; crawl() { seq 5000; }; line=77; cp /etc/passwd passwd.txt
""",
    "index": r"""
mkdir logs; id=00000000000000000000000000000077
for file in 1 2 3; do for i in $(seq $((file * 50)) $((file * 50 + 49))); do printf 'at %d id=%032d\n' "$i" "$i"; done |
  gzip >logs/$file.gz; done
""",
    "union": "seq 100 >today.txt; tamis build today.txt -o today.tamis; seq 50 150 >node1.txt\n"
             "seq 90 200 >node2.txt; tamis build --like today.tamis node2.txt -o node2.tamis\n",
    "list": "seq 100 >addresses.txt; mkdir -p etc/nginx\n",
    "passwords": "seq 100 >words.txt; mkdir -p srv/www\n",
    "quick": 'cp "$SOURCE"/examples/quick/* .\n',
    "shards": TREE,
    "amalgamated": PROGRAM + 'cc() { command cc "$@" -O0; }\n'  # optimizing the one file takes half a minute
                   '"$SOURCE/script/amalgamate" .\n',
    "tsan": PROGRAM, "helgrind": PROGRAM + "cc -g program.c $(pkg-config --cflags --libs tamis) -pthread -o program\n",
    "annotations": "",
    "cmake": 'cp "$SOURCE/examples/quick/share.c" .\n',
}
# NAME: what must hold afterwards.
CHECKED = {
    "command": r"""
[ "$(sort -u distinct.txt | wc -l)" -gt 2900 ] && [ "$(wc -l <frontier.txt)" -gt 4000 ] && [ "$(wc -l <new)" -gt 3900 ]
tamis query all.tamis new.txt | cmp - new.txt
""",
    "index": 'tamis which traces.index "$id" | grep -qx logs/1.gz\n',
    "union": "for i in 60 190; do echo $i | tamis query all.tamis - | grep -qx $i; done\n",
    "list": 'echo 77 | tamis query etc/nginx/blocked.tamis - | grep -qx 77\n[ "$(stat -c %a etc/nginx/blocked.tamis)" = 640 ]\n',
    "passwords": "echo 77 | tamis query srv/www/known.tamis - | grep -qx 77\n",
    "amalgamated": RUNS, "tsan": RUNS,
}
# A fragment of C is the body of a function with this in front.
FRAGMENT = {"annotations": "void f(tamis_filter *filter, const char *key, size_t len);\n"
                           "void f(tamis_filter *filter, const char *key, size_t len)\n"}
NEEDS = {"list": lambda installed: not os.geteuid(), "tsan": lambda installed: list(installed.rglob("tamis-tsan.pc")),
         "shards": lambda installed: shutil.which("redis-cli")}


def commands(block, folder):
    """A block of another language, as commands."""
    if block.language == "cmake":
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.18)\nproject(program C)\n"
                                               f"find_package(Threads)\nadd_executable(my_program share.c)\n{block.text}")
        return "cmake -B build . && cmake --build build && build/my_program"
    if block.language == "c":
        includes = "".join(re.findall(r"^#include .*\n", block.text, re.M))
        body = re.sub(r"^#include .*\n", "", block.text, flags=re.M)
        (folder / "block.c").write_text(f"#include <tamis/tamis.h>\n{includes}{FRAGMENT[block.name]}{{\n{body}}}\n")
        return "cc -Wall -Wextra -Werror $(pkg-config --cflags tamis) -c block.c"
    return SYSTEM.sub(lambda found: str(folder) + found[1] if found[1] != "/usr/local" else "$INSTALLED", block.text)


def run(block, source, installed, top):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{block.name}.", dir=top))
    text = f"{PREPARED[block.name]}set -ex\n{commands(block, folder)}\n{{ set +x; }} 2>/dev/null\n{CHECKED.get(block.name, '')}"
    library = next(installed.rglob("libtamis.so")).parent
    environment = {**os.environ, "SOURCE": str(source), "INSTALLED": str(installed), "LD_LIBRARY_PATH": str(library),
                   "PATH": f"{installed}/bin:{os.environ['PATH']}", "PKG_CONFIG_PATH": f"{library}/pkgconfig",
                   "CMAKE_PREFIX_PATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(["bash", "-eu", "-c", text], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600)
    shutil.rmtree(folder)
    if done.returncode:
        print(f"{block.document}:{block.line} ({block.name}) ends with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.returncode == 0


def main(source, build, *names):
    source = pathlib.Path(source).resolve()
    found = marked(source, "tests/packaging/test_examples.py")
    if sorted(block.name for block in found) != sorted(PREPARED):
        sys.exit(f"what is prepared is not what the documents name: {sorted({b.name for b in found} ^ PREPARED.keys())}")
    with tempfile.TemporaryDirectory() as top:
        installed, failed = pathlib.Path(top) / "installed", 0
        subprocess.run(["cmake", "--install", build, "--prefix", installed], check=True, stdout=subprocess.DEVNULL)
        for block in found:
            if names and block.name not in names:
                continue
            if not NEEDS.get(block.name, bool)(installed):
                print(f"not run here: {block.document}:{block.line} ({block.name})")
                continue
            failed += not run(block, source, installed, top)
    print(f"{len(found)} blocks, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
