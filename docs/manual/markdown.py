# SPDX-License-Identifier: MIT
"""tamis-format(5), from docs/reference/format.md, and what docs/manual/details/ says in other pages.  It knows the
Markdown of these files, and no other."""
import re

import mdoc


def inline(text):
    """A line of text: links become their texts, and emphasis and code become fonts."""
    text = re.sub(r"\[([^]]*)\]\(([^)]*)\)", lambda m: m[1], text)
    parts = re.split(r"(`[^`]+`|\*[^*\s](?:[^*]*[^*\s])?\*(?!\w))", text)
    for i, part in enumerate(parts):
        if i % 2:
            font = "B" if part[0] == "`" else "I"
            parts[i] = "\\f%s%s\\fR" % (font, mdoc.escape(part[1:-1], code=part[0] == "`"))
        else:
            parts[i] = mdoc.escape(part)
    line = "".join(parts)
    return "\\&" + line if line[:1] in (".", "'") else line


def sentences(text):
    return [inline(s) for s in re.split(r"(?<=[.!?:]) +(?=[A-Z`*(])", text)]


def cells(row):
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def table(rows):
    """A table for tbl(1).  The last column is filled, the others are as wide as what they hold, but that
    of many short columns."""
    head, body = cells(rows[0]), [cells(row) for row in rows[2:]]
    wide = any(len(cell) > 40 for row in body for cell in row)
    columns = " ".join(["l"] * (len(head) - 1) + ["lx" if wide else "l"])
    lines = [".Pp", ".TS", columns.replace("lx", "lb") + "\n" + columns + "."]
    for row in [head] + body:
        *short, last = [inline(cell) for cell in row]
        if len(row[-1]) > 40:
            lines += ["\t".join(short + ["T{"]), last, "T}"]
        else:
            lines.append("\t".join(short + [last]))
    return lines + [".TE"]


def items(lines, bullet):
    out = [".Bl -bullet" if bullet else ".Bl -enum"]
    for line in lines:
        out.append(".It")
        out += sentences(re.sub(r"^(-|\d+\.) +", "", line))
    return out + [".El"]


def body_of(text, top=".Sh"):
    """The lines of the page from below its title on.  `top` is the macro of the headings of the second level."""
    runs = re.split(r"\n{2,}", text.strip())
    lines, fresh = [], True
    for run in runs[1:]:
        rows = run.split("\n")
        first = rows[0]
        if first.startswith("#"):
            level, title = re.match(r"(#+) +(.*)", first).groups()
            macro = top if level == "##" else ".Ss"
            lines.append(macro + " " + mdoc.escape(title.upper() if macro == ".Sh" else title))
            fresh = True
            continue
        if first.startswith("|"):
            lines += table(rows)
        elif first.startswith("    "):
            lines += mdoc.flow([("code", [row[4:] for row in rows])])
        elif first.startswith("- ") or re.match(r"\d+\. ", first):
            lines += items(rows, first.startswith("- "))
        else:
            lines += ([] if fresh else [".Pp"]) + sentences(" ".join(rows))
        fresh = False
    return lines


def pages(source, version, date):
    text = (source / "docs/reference/format.md").read_text()
    title = re.match(r"# (.*)", text)[1]
    body = [".Sh DESCRIPTION"] + body_of(text) + mdoc.see_also([("tamis", 1), ("tamis_save", 3)])
    page = mdoc.page("tamis-format", 5, date, version, title[0].lower() + title[1:], body)
    # The first line asks man(1) for tbl(1).
    yield "tamis-format", 5, "'\\\" t\n" + page, ["tamis-format"]
