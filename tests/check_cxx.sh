#!/bin/bash
# SPDX-License-Identifier: MIT
# tamis.hpp compiles without a warning and does what it says: with each compiler that is there, for C++17 and
# C++20, with exceptions and without.  Without exceptions, the calls that throw are not there.
#
#   check_cxx.sh SOURCE_DIR SHARED_LIBRARY
set -eu
source=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror)

compilers=0
for compiler in g++ clang++; do
  command -v $compiler >/dev/null || continue
  compilers=$((compilers + 1))
  for way in "17" "17 -fno-exceptions" "20" "20 -fno-exceptions -fno-rtti"; do
    echo "$compiler -std=c++$way"
    read -r -a flags <<<"-std=c++$way"
    "$compiler" "${flags[@]}" "${warnings[@]}" -I"$source/include" "$source/tests/test_cxx.cpp" "$library" \
      -Wl,-rpath,"$(dirname "$library")" -pthread -o "$work/test"
    "$work/test"
  done
  cat >"$work/throws.cpp" <<'END'
#include <tamis/tamis.hpp>
void add(tamis::filter &filter) { filter.add("key"); }
END
  "$compiler" -std=c++17 -I"$source/include" -fsyntax-only "$work/throws.cpp"
  ! "$compiler" -std=c++17 -fno-exceptions -I"$source/include" -fsyntax-only "$work/throws.cpp" 2>/dev/null ||
    { echo "a call that throws is there without exceptions"; exit 1; }
done
[ $compilers -gt 0 ] || { echo "neither g++ nor clang++ was found"; exit 1; }
