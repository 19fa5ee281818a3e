#!/bin/sh
# SPDX-License-Identifier: MIT
# Every ORDER comment in lib/ names its partner, the partner has one that names it back, and the
# seeded bug that shows it is needed exists.
set -u
cd "$1" || exit 2
bad=0
tags=$(grep -hoE 'ORDER [a-z_]+\.[a-z_]+ \(' lib/*.[ch] lib/*/*.[ch] | awk '{ print $2 }')
[ -n "$tags" ] || { echo "no ORDER comment found"; exit 1; }
for tag in $tags; do
  block=$(grep -hA12 -F "ORDER $tag (" lib/*.[ch] lib/*/*.[ch])
  partner=$(printf '%s\n' "$block" | grep -m1 -oE 'pairs with +[a-z_]+\.[a-z_]+' | awk '{ print $3 }')
  if ! printf '%s\n' "$tags" | grep -qxF "${partner:-none}"; then
    echo "$tag: partner '${partner:-none}' has no ORDER comment"; bad=1
  elif ! grep -hA12 -F "ORDER $partner (" lib/*.[ch] lib/*/*.[ch] | grep -m1 -E 'pairs with' | grep -qF "$tag"; then
    echo "$tag: $partner does not name it back"; bad=1
  fi
  for bug in $(printf '%s\n' "$block" | grep -oE 'negative/[a-z_]+'); do
    find tests/negative -name "${bug#*/}.bug" | grep -q . || { echo "$tag: $bug is missing"; bad=1; }
  done
done
exit $bad
