#!/bin/bash
# SPDX-License-Identifier: MIT
# tamis.hpp costs nothing: for each compiler that is there, both of its forms of a call execute as many
# instructions of the program as the call of tamis.h, as callgrind counts them.  (The library then does the
# same in any case.)  What it may cost is a few instructions for a whole loop, or to create a filter.  A
# header that makes a copy of each key is noticed.
#
#   check_cxx_cost.sh SOURCE_DIR SHARED_LIBRARY
set -eu
source=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count() { # COMPILER WAY INCLUDE_DIR: instructions of the program in work(), without the library's
  "$1" -std=c++17 -O2 -DWAY="$2" -I"$3" "$source/tests/compat/cxx_cost.cpp" "$library" \
    -Wl,-rpath,"$(dirname "$library")" -o "$work/program"
  valgrind --quiet --tool=callgrind --toggle-collect=work --callgrind-out-file="$work/counts" \
    "$work/program" >"$work/sum.$2" 2>"$work/err" || { cat "$work/err" >&2; return 1; }
  cmp -s "$work/sum.0" "$work/sum.$2" || { echo "way $2 does other work" >&2; return 1; }
  callgrind_annotate --threshold=100 "$work/counts" | grep -F "[$work/program]" |
    awk '{ gsub(",", "", $1); sum += $1 } END { print sum + 0 }'
}

# No loop of cxx_cost.cpp has fewer than 2000 calls.
costs_nothing() { [ "$1" -gt 100000 ] && [ "$1" -lt $((c + 1000)) ]; } # COUNT

compilers=0
for compiler in g++ clang++; do
  command -v $compiler >/dev/null || continue
  compilers=$((compilers + 1))
  c=$(count $compiler 0 "$source/include")
  results=$(count $compiler 1 "$source/include")
  exceptions=$(count $compiler 2 "$source/include")
  echo "$compiler: $c instructions by tamis.h, $results with results, $exceptions with exceptions"
  costs_nothing "$results" && costs_nothing "$exceptions" || { echo "tamis.hpp costs instructions"; exit 1; }

  mkdir -p "$work/include/tamis"
  cp "$source/include/tamis/tamis.h" "$source/include/tamis/key.hpp" "$work/include/tamis/"
  copy='std::string(static_cast<const char *>(key_.data), key_.len)'
  sed "s/call(raw, key_.data, key_.len)/call(raw, $copy.data(), key_.len)/" \
    "$source/include/tamis/tamis.hpp" >"$work/include/tamis/tamis.hpp"
  copied=$(count $compiler 1 "$work/include")
  ! costs_nothing "$copied" || { echo "a copy of each key is not noticed"; exit 1; }
done
[ $compilers -gt 0 ] || { echo "neither g++ nor clang++ was found"; exit 1; }
