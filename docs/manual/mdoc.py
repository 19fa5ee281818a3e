# SPDX-License-Identifier: MIT
"""Writes manual pages in mdoc, the language of mandoc(1) and of groff's -mdoc.

A page is a list of lines.  Text comes as blocks, which the readers of the sources make:
    ("text", STRING)              a paragraph
    ("code", [LINE, ...])         lines that stay as they are
    ("list", [(HEAD, BLOCKS)])    HEAD is a string, or None for a bullet
"""
import re


def escape(text, code=False):
    text = text.replace("\\", "\\e")
    if code:
        text = text.replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha")
        text = text.replace("~", "\\(ti")
    text = "".join(c if ord(c) < 128 else "\\[u%04X]" % ord(c) for c in text)
    return "\\&" + text if text[:1] in (".", "'") else text


def argument(text):
    """An argument of a macro that stays one, whatever it contains."""
    return '"%s"' % escape(text).replace('"', "\\(dq")


def marked(text, bold=()):
    """A text line: what is in backquotes is italic, and names in `bold` are bold."""
    parts = re.split(r"(`[^`]+`)", text)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = "\\fI%s\\fR" % escape(part[1:-1], code=True)
        else:
            parts[i] = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: "\\fB%s\\fR" % m[0] if m[0] in bold else m[0],
                              escape(part))
    line = "".join(parts)
    return "\\&" + line if line[:1] in (".", "'") else line


def flow(blocks, bold=(), first=False):
    """The lines of some blocks.  `first`: no break is wanted before the first one."""
    lines = []
    for kind, content in blocks:
        if kind == "text":
            if not first:
                lines.append(".Pp")
            for sentence in re.split(r"(?<=[.!?:]) +(?=[A-Z(`])", content):
                lines.append(marked(sentence, bold))
        elif kind == "code":
            lines += [".Bd -literal -offset indent"]
            lines += [escape(line, code=True) for line in content]
            lines += [".Ed"]
        else:
            bullets = content[0][0] is None
            heads = [head or "" for head, _ in content]
            narrow = max(map(len, heads)) <= 14 and not any(head[:3] in ("Fa ", "Dv ", "Fl ") for head in heads)
            width = max(heads, key=len).replace(" ", "_") if narrow else "Ds"
            lines.append(".Bl -bullet" if bullets else ".Bl -tag -width " + width)
            for head, body in content:
                lines.append(".It" if bullets else ".It " + head)
                lines += flow(body, bold, first=True)
            lines.append(".El")
        first = False
    return lines


def page(name, section, date, version, phrase, body, names=None):
    """A page; `names` are all names that it describes, if there are several."""
    names = names or [name]
    head = ['.\\" SPDX-License-Identifier: MIT', ".Dd " + date, ".Dt %s %d" % (name.upper(), section),
            ".Os tamis " + version, ".Sh NAME"]
    head += [".Nm %s%s" % (n, " ," if n != names[-1] else "") for n in names]
    return "\n".join(head + [".Nd " + escape(phrase)] + body) + "\n"


def see_also(pages):
    lines = [".Sh SEE ALSO"]
    ordered = sorted(pages, key=lambda p: (p[1], p[0]))
    return lines + [".Xr %s %d%s" % (n, s, "" if (n, s) == ordered[-1] else " ,") for n, s in ordered]
