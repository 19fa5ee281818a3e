#!/bin/bash
# SPDX-License-Identifier: MIT
# The README's first example compiles without a warning and does what it says.
#
#   check_readme.sh SOURCE_DIR LIBRARY
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```c$/ { on = 1; next } /^```$/ && on { exit } on' "$1/README.md" >"$work/example.c"
cc -std=c11 -Wall -Wextra -Werror -I"$1/include" "$work/example.c" "$2" -lurcu-bp -pthread -lm -o "$work/example"
"$work/example" | tee "$work/out"
awk '{ sum += $3 } END { exit !(sum >= 99998 && sum <= 100000) }' "$work/out"
