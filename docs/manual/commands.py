# SPDX-License-Identifier: MIT
"""The pages of section 1: tamis(1) and one for each of its commands, from what --help prints."""
import os
import re
import subprocess

import mdoc

COMMAND = re.compile(r"  ([a-z]\w*)  +(\S.*)$")
OPTION = re.compile(r"  (?:-(\w), |    )--([a-z-]+)(?:=(\w+))?(?:  +(\S.*))?$")


def help_of(program, *command):
    environment = {**os.environ, "LC_ALL": "C"}
    environment.pop("ARGP_HELP_FMT", None)
    return subprocess.run([*program, *command, "--help"], env=environment, stdout=subprocess.PIPE, text=True,
                          check=True).stdout.rstrip("\n").split("\n")


def paragraphs(lines):
    """Runs of lines between empty ones."""
    run = []
    for line in lines + [""]:
        if line:
            run.append(line)
        elif run:
            yield run
            run = []


def option(match):
    """The head of an option's item."""
    short, name, value = match[1], match[2], match[3]
    head = "Fl %s , " % short if short else ""
    return head + "Fl Fl " + name + (" Ns = Ns Ar " + value if value else "")


def entries(lines):
    """The options, or the commands, of a table: two columns, of which the second one may be continued."""
    found = []
    for line in lines:
        match = OPTION.match(line)
        command = COMMAND.match(line)
        if match:
            found.append([option(match), [match[4]] if match[4] else []])
        elif command:
            found.append(["Xr tamis-%s 1" % command[1], [command[2]]])
        else:
            found[-1][1].append(line.strip())
    return [(head, [("text", " ".join(text))]) for head, text in found]


def usage(lines):
    """SYNOPSIS, from the lines after `Usage:`."""
    result = [".Sh SYNOPSIS"]
    for line in lines:
        words = re.sub(r"^(Usage:| {6}) ", "", line).split()
        any_command = words[1].isupper()
        result.append(".Nm " + " ".join(words[: 1 if any_command else 2]))
        for word in words[1 if any_command else 2 :]:
            optional, ellipsis = word.startswith("["), "..." in word
            name = word.strip("[].")
            macro = "Fl o" if name == "-o" else "Ar " + name + (" ..." if ellipsis else "")
            result.append(".Op " + macro if optional else "." + macro)
        result.append(".br")
    return result[:-1]


def pages(program, version, date):
    top = list(paragraphs(help_of(program)))
    phrases = {m[1]: m[2] for run in top for line in run if (m := COMMAND.match(line))}
    yield page("tamis", "approximate-membership filters (Bloom, cuckoo) on the command line", top[0][:1], [top[0][1:]] + top[1:],
               ["tamis-" + name for name in phrases], version, date)
    for name in phrases:
        parts = list(paragraphs(help_of(program, name)))
        # The sentence that follows the line of the usage says what the command does.
        yield page("tamis-" + name, phrases[name], parts[0][:1], [parts[0][1:]] + parts[1:], ["tamis"], version, date)


def page(name, phrase, used, parts, others, version, date):
    body = usage(used) + [".Sh DESCRIPTION"]
    tail = {}
    first = True
    for run in parts:
        if not run:
            continue
        if run[0] == "Examples:":
            tail["EXAMPLES"] = [("code", [line[2:] for line in run[1:]])]
        elif run[0].startswith("The exit status "):
            tail["EXIT STATUS"] = [("text", " ".join(run))]
        elif run[0].startswith("  ") and not OPTION.match(run[0]) and not COMMAND.match(run[0]):
            tail["EXAMPLES"] = [("code", [line[2:] for line in run])]
        elif run[0].startswith("  "):
            body += mdoc.flow([("list", entries(run))])
        else:
            body += mdoc.flow([("text", " ".join(run))], first=first)
            first = False
    for title in ("EXIT STATUS", "EXAMPLES"):
        if title in tail:
            body += [".Sh " + title] + mdoc.flow(tail[title], first=True)
    body += mdoc.see_also([(other, 1) for other in others] + [("tamis-format", 5)] + [("tamis", 3)] * (name == "tamis"))
    return name, 1, mdoc.page(name, 1, date, version, phrase, body), [name]
