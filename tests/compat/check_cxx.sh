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
    "$compiler" "${flags[@]}" "${warnings[@]}" -I"$source/include" "$source/tests/unit/test_cxx.cpp" "$library" \
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
  # Objects that are compiled with exceptions and without are linked, in either order.
  cat >"$work/mixed.hpp" <<'END'
#include <tamis/tamis.hpp>
bool put(bool throws); // in with.cpp
struct writer {
  bool throws;
  bool operator()(const void *, std::size_t) const { return put(throws); }
};
int without(const tamis::filter &filter);
END
  cat >"$work/without.cpp" <<'END'
#include "mixed.hpp"
int without(const tamis::filter &filter) { return filter.try_save(writer{false}); }
END
  cat >"$work/with.cpp" <<'END'
#include "mixed.hpp"
bool put(bool throws)
{
  if (throws)
    throw 1;
  return true;
}
int main()
{
  tamis::filter filter(tamis::options(1000));
  try {
    filter.save(writer{true});
  } catch (int) {
    return without(filter) == TAMIS_OK ? 0 : 1;
  }
  return 1;
}
END
  "$compiler" -std=c++17 -I"$source/include" -c "$work/with.cpp" -o "$work/with.o"
  "$compiler" -std=c++20 -fno-exceptions -I"$source/include" -c "$work/without.cpp" -o "$work/without.o"
  for objects in "with.o without.o" "without.o with.o"; do
    read -r -a files <<<"$objects"
    (cd "$work" && "$compiler" "${files[@]}" "$library" -Wl,-rpath,"$(dirname "$library")" -o mixed && ./mixed) ||
      { echo "objects with exceptions and without, linked: $objects"; exit 1; }
  done
done
[ $compilers -gt 0 ] || { echo "neither g++ nor clang++ was found"; exit 1; }
