#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The manual pages are well-formed and complete, and their examples work.

    test_manual.py SOURCE_DIR BUILD_DIR

mandoc finds nothing to warn of.  Every public function and type has a page.  Every sentence of the header's
comments, of the fine print in docs/manual/details, and of what the command prints as help, is in its page: the
words are compared, in their order.  No sentence stands both in the header and in the fine print.  A function has
at most six lines of comment, and a field of a struct at most three.
The C example is compiled and run, and so are the examples of the command, in a folder with files of the
names that they use.
"""
import functools
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
PAGES = BUILD / "docs/manual/pages"
COMMAND = BUILD / "tools/tamis"
HEADER = (SOURCE / "include/tamis/tamis.h").read_text()
DETAILS = "docs/manual/details"
sys.path.insert(0, str(SOURCE / "docs/manual"))
import calls  # noqa: E402  (the generator, whose reader of the header is used here)


def run(*words, **more):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def words_of(text):
    """The words of a text, without the punctuation that a page may set in another way."""
    return re.sub(r"[^0-9A-Za-z_]+", " ", text).split()


@functools.lru_cache(maxsize=None)
def rendered(page):
    """The words of a page as it is read."""
    text = run("mandoc", "-Tutf8", "-O", "width=1000", str(page))
    return " ".join(words_of(re.sub(r".\x08", "", text)))


def missing(lines, text):
    """The lines whose words are not in the text, in their order."""
    padded = " %s " % text
    pieces = [piece for line in lines for piece in re.split(r" {2,}", line.strip())]
    return [piece for piece in pieces if words_of(piece) and " %s " % " ".join(words_of(piece)) not in padded]


def public_names():
    functions = re.findall(r"^TAMIS_API [^(]*?\*?(\w+)\(", HEADER, re.M)
    types = re.findall(r"^typedef (?:struct|enum) (\w+) \{", HEADER, re.M) + re.findall(r"\(\*(\w+)\)\(void \*context,",
                                                                                        HEADER)
    return functions + [name for name in types if name.startswith("tamis_")]


def comments(header=HEADER):
    for comment in re.findall(r"/\*.*?\*/", header, re.S):
        lines = [re.sub(r"^\s*(?:/\*|\*(?!/)) ?|\s*\*/$", "", line) for line in comment.split("\n")]
        yield [line for line in lines if line and "----" not in line and "SPDX" not in line]


def test_pages_are_well_formed():
    for page in PAGES.glob("*/*"):
        run("mandoc", "-Tlint", "-Wwarning", str(page))


def test_apropos_finds_the_pages():
    """By what people look for, who do not know the name: man -k bloom."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PAGES, folder, symlinks=True, dirs_exist_ok=True)
        run("makewhatis", folder)
        for word in "bloom", "cuckoo", "membership":
            found = run("mapropos", "-M", folder, word)
            for name in "tamis(1)", "tamis(3)":
                assert name in found, f"{word}: {found}"


def test_every_name_has_a_page():
    for name in public_names():
        page = PAGES / "man3" / (name + ".3")
        assert page.exists(), "no page: " + name
        assert re.search(r"^\.Nm %s\b" % name, page.read_text(), re.M), "not a name of its page: " + name


def test_every_sentence_of_the_header_is_in_a_page():
    text = " ".join(rendered(page) for page in sorted((PAGES / "man3").glob("*.3")) if not page.is_symlink())
    skipped = {"TAMIS_H", "Marks the public functions.", "The library exports nothing else."}
    lost = [line for lines in comments() for line in missing(lines, text) if line not in skipped]
    assert not lost, "not in a page: %s" % lost
    # This check finds what it is for.
    assert missing(["a sentence that no page has"], text)


def sentences(texts):
    """The sentences of some texts, as their words.  Those of less than five words say nothing by themselves."""
    parts = [words_of(part) for text in texts for part in re.split(r"(?<=[.:;!?])\)? +| {2,}", text)]
    return {" ".join(part) for part in parts if len(part) >= 5}


def faults(source, pages):
    """What is wrong with the header and the fine print of a tree whose pages have been made."""
    header = (source / "include/tamis/tamis.h").read_text()
    said = sentences(" ".join(line.strip() for line in lines) for lines in comments(header))
    for path in sorted((source / DETAILS).glob("*.md")):
        lines = [line for line in path.read_text().split("\n")[1:] if line]
        text = rendered(pages / "man3" / (path.stem + ".3"))
        yield from ("not in its page: %s" % line for line in missing(lines, text))
        yield from ("also in the header: %s" % sentence for sentence in sorted(sentences(lines) & said))
    for _, _, _, items in calls.read(header)[1]:
        for item in items:
            if item.functions and len(item.comment) > 6:
                yield "more than six lines: %s" % item.names[0]
            if item.code.startswith("typedef struct") and "{" in item.code:
                for declarations, comment in calls.members(item.code):
                    if len(comment) > 3:
                        yield "more than three lines: %s" % declarations[0]


def test_the_fine_print_is_in_the_pages():
    found = list(faults(SOURCE, PAGES))
    assert not found, found


def copied(folder):
    """A copy of what the pages of section 3 and 5 are made from."""
    for name in ("include/tamis", "docs/manual"):
        shutil.copytree(SOURCE / name, folder / name)
    for name in ("docs/reference/format.md", "CHANGELOG.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / name, folder / name)
    return folder


def put(path, old, new):
    text = path.read_text() if path.exists() else ""
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_faults_of_the_fine_print_are_found():
    """Each of these has one fault, which must be found."""
    add, header = DETAILS + "/tamis_add.md", "include/tamis/tamis.h"
    broken = [
        (add, "## tamis_count\n", "A sentence that no page has.\n\n## tamis_count\n", "not in its page: A sentence"),
        (add, "## tamis_count\n", "## tamis_count\n\nFalse for invalid arguments, says tamis_count.\n",
         "not in its page: False"),
        (add, "## tamis_count\n", "## tamis_count\n\nAdds a key and says whether the key was new.\n",
         "also in the header: Adds a key and"),
        (header, "/* Frees the filter.", "/* Frees the filter.\n *" + "\n * Words." * 4, "more than six lines: tamis_dest"),
        (header, "  uint64_t capacity; /* as asked */", "  /* As\n   * asked,\n   * in four\n   * lines. */\n  uint64_t capacity;",
         "more than three lines: uint64_t capacity"),
    ]
    for name, old, new, expected in broken:
        with tempfile.TemporaryDirectory() as folder:
            tree = copied(pathlib.Path(folder))
            put(tree / name, old, new)
            found = list(faults(tree, PAGES))
            assert any(fault.startswith(expected) for fault in found), "not found: %s, but %s" % (expected, found)


def test_fine_print_without_a_page_is_refused():
    """The copy as it is gives the same pages.  With a file more than there are pages, it gives none."""
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(pathlib.Path(folder))
        make = [sys.executable, "-B", str(tree / "docs/manual/manual.py"), str(tree), str(tree / "pages")]
        run(*make)
        assert not list(faults(tree, tree / "pages"))
        put(tree / DETAILS / "tamis_no_call.md", "", "# The fine print of nothing\n\nA sentence.\n")
        done = subprocess.run(make, capture_output=True, text=True)
        assert done.returncode and "tamis_no_call.md: there is no such page" in done.stderr, done.stderr


def test_every_sentence_of_the_help_is_in_a_page():
    names = [""] + re.findall(r"^  ([a-z]\w*) {2,}\S", run(COMMAND, "--help"), re.M)
    assert len(names) > 5
    for name in names:
        text = rendered(PAGES / "man1" / ("-".join(["tamis", name]).strip("-") + ".1"))
        lines = run(COMMAND, *name.split(), "--help").split("\n")
        lost = missing([line for line in lines if line not in ("Examples:",) and "Usage:" not in line], text)
        assert not lost, "not in the page of %s: %s" % (name or "tamis", lost)


def examples_of(page):
    text = page.read_text()
    for block in re.findall(r"^\.Bd -literal -offset indent\n(.*?)^\.Ed", text, re.M | re.S):
        for old, new in (("\\&", ""), ("\\-", "-"), ("\\(aq", "'"), ("\\(ga", "`"), ("\\(ha", "^"), ("\\(ti", "~"),
                         ("\\e", "\\")):
            block = block.replace(old, new)
        yield block


def test_the_c_example_runs():
    """A line may be an expression, or a statement, and have a remark after two spaces."""
    lines = []
    for line in next(iter(examples_of(PAGES / "man3/tamis.3"))).split("\n"):
        code = re.split(r"(?<=\S) {2,}", line)[0]
        lines.append(code if not code or code.endswith((";", "{", "}")) or code.startswith("if") else code + ";")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "example.c").write_text("""
#include <tamis/tamis.h>
#include <stdio.h>
static const char key[] = "key", path[] = "list.tamis";
enum { len = 3 };
static void *context;
static void first_caller_with(const char *k) { puts(k); }
static int write(void *c, const void *data, size_t size) { return fwrite(data, 1, size, stdout) != size; }
int main(void)
{
  tamis_filter *filter;
  {
%s
  }
  return 0;
}
""" % "\n".join(lines))
        run("cc", "-std=c11", "-I%s/include" % SOURCE, "example.c", "%s/libtamis.so" % BUILD, "-o", "example", cwd=folder)
        run("./example", cwd=folder, env={**os.environ, "LD_LIBRARY_PATH": str(BUILD)})


# What the examples of the command have at hand: files, and commands beside tamis.
LINES = "\n".join("line %d" % (i % 700) for i in range(1000)) + "\n"
FILES = """known.txt today.txt monday.txt tuesday.txt wednesday.txt big.txt other.txt requests.txt requests-1.log
access.log app.log counts.txt blocked.txt""".split()
PACKED = ["urls.gz", "urls-1.gz", "urls-2.gz", "blocked.gz"]
STUBS = """
tail() { cat "${@: -1}"; }
crawl() { cat known.txt; }
jq() { grep -q '"fpp_estimate"'; }
id="line 7" other="line 8"
"""


def test_the_examples_of_the_command_run():
    for page in sorted((PAGES / "man1").glob("*.1")):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            for name in FILES:
                (path / name).write_text(LINES)
            for name in PACKED:
                (path / name).write_bytes(gzip.compress(LINES.encode()))
            environment = {**os.environ, "PATH": "%s:%s" % (COMMAND.parent, os.environ["PATH"])}
            for name in ("known.tamis", "blocked.tamis", "monday.tamis"):
                run(COMMAND, "build", "--capacity", "1000", "known.txt", "-o", name, cwd=folder)
            run(COMMAND, "build", "--field", "2", "known.txt", "-o", "users.tamis", cwd=folder)
            run(COMMAND, "index", "-o", "logs.index", "urls-1.gz", cwd=folder)
            run(COMMAND, "dedup", "--shared", "recent", "--window", "12", "--period", "300", "known.txt", cwd=folder)
            commands = [line for block in examples_of(page) for line in block.split("\n") if line]
            assert commands, "no examples: %s" % page.name
            for line in commands:
                done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", STUBS + line], cwd=folder, env=environment,
                                      capture_output=True, text=True, stdin=subprocess.DEVNULL)
                # A query of lines that are all in the list, by -v, finds none: status 1, as grep's.
                assert done.returncode == (1 if "query -v" in line else 0), "%s: %s" % (line, done.stderr)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)
