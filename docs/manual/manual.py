#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the manual pages.  Each is made from the one text that says the same elsewhere:

    section 3   the contracts in include/tamis/tamis.h, and the fine print in docs/manual/details   (calls.py)
    section 1   what `tamis COMMAND --help` prints         (commands.py)
    section 5   docs/reference/format.md                             (markdown.py)

    manual.py SOURCE_DIR OUT_DIR [PROGRAM...]

PROGRAM is the command that runs tamis; without it there is no section 1.  The pages are put below
OUT_DIR/man1, man3 and man5.  A page of several names has a link for each of the others.  The date of the
pages is that of the version in CHANGELOG.md; while that is not released, $SOURCE_DATE_EPOCH or today.
"""
import datetime
import os
import pathlib
import re
import shutil
import sys

import calls
import commands
import markdown


def version_of(source):
    numbers = re.findall(r"^#define TAMIS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                         (source / "include/tamis/tamis.h").read_text(), re.M)
    return ".".join(numbers)


def date_of(source, version):
    released = re.search(r"^## \[%s\] - (\d{4}-\d\d-\d\d)$" % re.escape(version),
                         (source / "CHANGELOG.md").read_text(), re.M)
    if released:
        date = datetime.date.fromisoformat(released[1])
    else:
        moment = os.environ.get("SOURCE_DATE_EPOCH") or datetime.datetime.now().timestamp()
        date = datetime.datetime.fromtimestamp(float(moment), datetime.timezone.utc).date()
    return "%s %d, %d" % (date.strftime("%B"), date.day, date.year)


def main(source, out, *program):
    source, out = pathlib.Path(source), pathlib.Path(out)
    version = version_of(source)
    date = date_of(source, version)
    made = [*calls.pages(source, version, date), *markdown.pages(source, version, date)]
    if program:
        made += commands.pages(list(program), version, date)
    shutil.rmtree(out, ignore_errors=True)
    for name, section, text, names in made:
        folder = out / ("man%d" % section)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("%s.%d" % (name, section))).write_text(text)
        for other in names:
            if other != name:
                (folder / ("%s.%d" % (other, section))).symlink_to("%s.%d" % (name, section))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
