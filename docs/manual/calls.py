# SPDX-License-Identifier: MIT
"""The pages of section 3: one for each section of include/tamis/tamis.h, and tamis(3) from its beginning.

A section of the header begins with a comment whose first line is `---- NAME: PHRASE ----`.  NAME, a call of
the section, is the page's name, and PHRASE is what its NAME line says.  All other calls and types of the
section are names of the same page.

The fine print of the page NAME is in docs/manual/details/NAME.md.
"""
import re

import markdown
import mdoc

SECTION = re.compile(r"---- (\w+): (.*) ----$")
LABELS = "Threads|Blocks|Order|Errors"
# What begins a paragraph inside of a label: a result, or a kind of filter.
START = re.compile(r"(?:TAMIS_[A-Z]+\b|On every error\b|"
                   r"(?:Bloom|Cuckoo|Counting Bloom|With a window|JSON|Prometheus)\b[^.]{0,24}:)")


def comment_lines(comment):
    """The lines of a comment, without what frames it; a line's indent counts from the comment's text."""
    lines = re.sub(r"\s*\*/$", "", comment).split("\n")
    lines[0] = re.sub(r"^\s*/\* ?", "", lines[0])
    framed = all(re.match(r"\s*\*", line) for line in lines[1:])
    rest = [re.sub(r"^\s*\* ?", "", line) if framed else line.strip() for line in lines[1:]]
    return [line.rstrip() for line in [lines[0]] + rest]


def blocks_of(lines):
    """The blocks of a comment.  Two spaces indent a definition, whose text follows two spaces more, a bullet
    or a paragraph; four spaces after an empty line indent code."""
    blocks, paragraph, deep = [], [], None

    def body():
        return blocks if deep is None else deep

    def end():
        if paragraph:
            body().append(("text", " ".join(paragraph)))
            paragraph.clear()

    def in_code():
        return blocks and blocks[-1][0] == "code" and not paragraph

    def define(head, text):
        nonlocal deep
        end()
        if not blocks or blocks[-1][0] != "list" or (blocks[-1][1][0][0] is None) != (head is None):
            blocks.append(("list", []))
        deep = []
        blocks[-1][1].append((head, deep))
        if text:
            paragraph.append(text)

    empty, before = True, 0
    for line in lines:
        indent = len(line) - len(line.lstrip())
        text = line.strip()
        if not text:
            end()
        elif indent >= 4 and deep is None and (empty or in_code()):
            if not in_code():
                blocks.append(("code", []))
            blocks[-1][1].append(line[4:])
        elif indent == 2 and text.startswith("- "):
            define(None, text[2:])
        elif indent == 2 and re.match(r"\S+(?: \S+){0,3}(?<![.:;])  +\S", text):
            for part in re.split(r" {3,}(?=(?:%s)  )" % LABELS, text):
                define(*re.split(r"  +", part, maxsplit=1))
        elif indent == 2 and re.match(r"(?:(?:%s)[, ]*)+: " % LABELS, text):
            define(*text.split(": ", 1))
        elif indent == 2 and re.match(r"[a-z_, ]+$", text):
            define(text, "")
        else:
            if indent < 2 and deep is not None:
                end()
                deep = None
            broken = paragraph and paragraph[-1][-1] in ".;:)" and START.match(text) and (indent >= 2)
            headed = indent == 2 and re.match(r"[A-Z][A-Za-z ]*:( |$)", text)
            if broken or headed or (deep is None and indent != before):
                end()
            paragraph.append(text)
        empty, before = not text, indent
    end()
    return blocks


class Item:
    """One declaration, or several that share a comment."""

    def __init__(self, comment, code):
        self.comment, self.code = comment, code
        self.names = re.findall(r"^TAMIS_API [^(]*?\*?(\w+)\(", code, re.M)
        self.functions = bool(self.names)
        if not self.functions:
            self.names = re.findall(r"^typedef (?:struct|enum) (\w+)|\(\*(\w+)\)\(", code)[:1]
            self.names = [a or b for a, b in self.names]


def read(header):
    """The first comment, the names of all sections, and what is in each."""
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", header, flags=re.M | re.S)
    first = re.match(r"/\*.*?\*/", text, re.S)
    text = text[first.end():]
    sections, pending, after_code = [], None, False
    token = re.compile(r"(?P<comment>^/\*.*?\*/\n)|(?P<macro>^#(?:[^\n]*\\\n)*[^\n]*\n)|(?P<blank>^\n)|"
                       r"(?P<code>^(?:typedef (?:struct|enum) \w+ \{.*?^\} \w+;\n|enum \{.*?^\};\n|[^;]*?;\n))",
                       re.M | re.S)
    for match in token.finditer(text):
        kind, found = match.lastgroup, match[match.lastgroup]
        if kind == "comment":
            pending = comment_lines(found.rstrip("\n"))
            mark = SECTION.match(pending[0])
            if mark:
                sections.append((mark[1], mark[2], pending[1:], []))
                pending = None
        elif kind == "code" and sections:
            items = sections[-1][3]
            another = pending is None and after_code and found.startswith("TAMIS_API")
            if another and items and items[-1].functions:
                items[-1] = Item(items[-1].comment, items[-1].code + found)
            else:
                items.append(Item(pending or [], found))
            pending = None
        elif kind == "blank" and pending:
            # A comment that stands by itself begins a part of the section.
            sections[-1][3].append(Item(pending, ""))
            pending = None
        elif kind == "macro":
            pending = None  # it was said of the macro
        after_code = kind == "code"
    return comment_lines(first[0]), sections


def declared(code):
    """The functions of a declaration: (type, name, parameters)."""
    for kind, name, parameters in re.findall(r"^TAMIS_API ([^(]*?\*?)(\w+)\((.*?)\);", code, re.M | re.S):
        yield kind.strip(), name, [" ".join(p.split()) for p in parameters.split(",")]


def members(code):
    """The members of a struct or an enumeration, with their comments: ([declaration, ...], comment)."""
    body = code[code.index("{") + 1:code.rindex("}")]
    found, comment = [], None
    pattern = r"/\*.*?\*/|[^;,{}/]+[;,]?(?:[ \t]*/\*.*?\*/)?"
    for match in re.finditer(pattern, body, re.S):
        piece = match[0].strip()
        if not piece:
            continue
        if piece.startswith("/*"):
            comment = comment_lines(piece)
            continue
        declaration, _, trailing = piece.partition("/*")
        declaration = " ".join(declaration.split()).rstrip(",;")
        if trailing:
            found.append(([declaration], comment_lines("/*" + trailing)))
        elif comment is None and found:
            found[-1][0].append(declaration)
        else:
            found.append(([declaration], comment or []))
        comment = None
    return found


def synopsis(items):
    lines = [".Sh SYNOPSIS", ".In tamis/tamis.h"]
    for item in items:
        if item.functions:
            for kind, name, parameters in declared(item.code):
                lines += [".Ft " + mdoc.argument(kind), ".Fo " + name]
                lines += [".Fa " + mdoc.argument(p) for p in parameters]
                lines.append(".Fc")
        elif item.names and "{" in item.code:
            declaration = re.match(r"typedef \w+ \w+", item.code)[0]
            lines.append(".Vt " + mdoc.argument(declaration + " " + item.names[0]) + " ;")
        elif item.names:
            lines += [".Bd -literal"] + [mdoc.escape(x, True) for x in item.code.rstrip().split("\n")] + [".Ed", ".Pp"]
    return lines


def description(section, items, bold):
    flow = mdoc.flow(blocks_of(section), bold, first=True)
    lines = [".Sh DESCRIPTION"] + flow
    for item in items:
        if item.names:
            lines.append(".Ss " + ", ".join(item.names))
        lines += mdoc.flow(blocks_of(item.comment), bold, first=bool(item.names) or len(lines) == 1)
        if "{" not in item.code:
            continue
        parts = members(item.code)
        if not any(comment for _, comment in parts):
            lines += mdoc.flow([("code", item.code.rstrip().split("\n"))])
            continue
        macro = "Fa" if "struct" in item.code.split("{")[0] else "Dv"
        entries = [(" , ".join("%s %s" % (macro, mdoc.argument(d)) for d in declarations), blocks_of(comment))
                   for declarations, comment in parts]
        lines += mdoc.flow([("list", entries)], bold)
    return lines


def details(source, name):
    """The lines of a page's fine print, if there is any."""
    path = source / "docs/manual/details" / (name + ".md")
    return [".Sh DETAILS"] + markdown.body_of(path.read_text(), ".Ss") if path.exists() else []


def pages(source, version, date):
    """Yields (name, section, page, names) for each page."""
    intro, sections = read((source / "include/tamis/tamis.h").read_text())
    for path in (source / "docs/manual/details").iterdir():
        if path.name not in [name + ".md" for name in ["tamis"] + [section[0] for section in sections]]:
            raise SystemExit("docs/manual/details/%s: there is no such page" % path.name)
    calls = {name for *_, items in sections for item in items for name in item.names}
    start = next(i for i, line in enumerate(intro) if line.startswith("tamis: "))
    phrase = intro[start].split(": ", 1)[1].rstrip(".")
    body = [".Sh SYNOPSIS", ".In tamis/tamis.h", ".Pp", ".Nm cc",
            "\\&... $(pkg\\-config \\-\\-cflags \\-\\-libs tamis)", ".Sh DESCRIPTION"]
    body += mdoc.flow(blocks_of(intro[start + 1:]), calls, first=True)
    body += [".Pp", "The calls are described in these pages:",
             ".Bl -tag -width tamis_get_stats(3) -compact"]
    for name, what, _, _ in sections:
        body += [".It Xr %s 3" % name, mdoc.escape(what)]
    body += [".El", ".Pp", "Files whose names begin with docs/ are part of the documentation",
             "that is installed with the library."] + details(source, "tamis")
    body += mdoc.see_also([("tamis", 1), ("tamis-format", 5)])
    yield "tamis", 3, mdoc.page("tamis", 3, date, version, phrase, body), ["tamis"]
    for name, what, text, items in sections:
        names = [name] + [n for item in items for n in item.names if n != name]
        body = synopsis(items) + description(text, items, calls) + details(source, name)
        body += mdoc.see_also([("tamis", 3), ("tamis-format", 5)])
        yield name, 3, mdoc.page(name, 3, date, version, what, body, names), names
