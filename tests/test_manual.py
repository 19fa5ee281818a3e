#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The manual pages are well-formed and complete, and their examples work.

    test_manual.py SOURCE_DIR BUILD_DIR

mandoc finds nothing to warn of.  Every public function and type has a page.  Every sentence of the header's
comments, and of what the command prints as help, is in its page: the words are compared, in their order.
The C example is compiled and run, and so are the examples of the command, in a folder with files of the
names that they use.
"""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
PAGES = BUILD / "docs/manual/pages"
COMMAND = BUILD / "tools/tamis"
HEADER = (SOURCE / "include/tamis/tamis.h").read_text()


def run(*words, **more):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def words_of(text):
    """The words of a text, without the punctuation that a page may set in another way."""
    return re.sub(r"[^0-9A-Za-z_]+", " ", text).split()


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


def comments():
    for comment in re.findall(r"/\*.*?\*/", HEADER, re.S):
        lines = [re.sub(r"^\s*(?:/\*|\*(?!/)) ?|\s*\*/$", "", line) for line in comment.split("\n")]
        yield [line for line in lines if line and "----" not in line and "SPDX" not in line]


def test_pages_are_well_formed():
    for page in PAGES.glob("*/*"):
        run("mandoc", "-Tlint", "-Wwarning", str(page))


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
access.log app.log""".split()
PACKED = ["urls.gz", "urls-1.gz", "urls-2.gz", "blocked.gz"]
STUBS = """
tail() { cat "${@: -1}"; }
crawl() { cat known.txt; }
jq() { grep -q '"fpp_estimate"'; }
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
