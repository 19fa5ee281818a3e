#!/bin/bash
# SPDX-License-Identifier: MIT
# docs/space.md has the sizes that the library plans; and a page with another size is refused.
#
#   check_figures.sh SOURCE_DIR STRESS_TABLES
set -eu
"$1/script/figures" --check "$2"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in planned capacities; do
  # The last digit of the table's last line becomes another one.
  awk -v begin="<!-- table: $name -->" '
    $0 == begin { on = 1 }
    $0 == "<!-- end -->" && on { on = 0; digit = substr(last, length(last) - 2, 1)
      last = substr(last, 1, length(last) - 3) (digit + 1) % 10 " |" }
    NR > 1 { print last }
    { last = $0 }
    END { print last }' "$1/docs/space.md" >"$work/page"
  ! cmp -s "$1/docs/space.md" "$work/page" || { echo "the table '$name' was not changed"; exit 1; }
  ! "$1/script/figures" --check "$2" "$work/page" >/dev/null ||
    { echo "a wrong size in the table '$name' is accepted"; exit 1; }
done
