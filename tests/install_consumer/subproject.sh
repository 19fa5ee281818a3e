#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds tamis below a parent project that is strict about warnings and sets no build type, with each
# compiler that is there, and checks what the parent gets: an optimised library, and neither tests nor
# warnings that it did not ask for.
#
#   subproject.sh SOURCE_DIR BUILD_DIR
set -eu
source=$1 here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }
fail() { echo "$1"; exit 1; }
commands() { grep '"command":.*/lib/' "$1/compile_commands.json" || fail "no command compiles lib/"; }

compilers=0
for compiler in gcc clang; do
  command -v $compiler >/dev/null || continue
  compilers=$((compilers + 1))
  echo "add_subdirectory, $compiler"
  tree=$work/$compiler
  quiet cmake -S "$here" -B "$tree" -DTAMIS_SOURCE="$source" -DCMAKE_C_COMPILER=$compiler \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
  quiet cmake --build "$tree" --parallel 2
  for program in "$tree"/consumer_*; do (cd "$work" && "$program"); done
  for word in -O2 -Wpedantic -std=c11 -DNDEBUG; do
    [ -z "$(commands "$tree" | grep -v -e " $word ")" ] || fail "lib/ is compiled without $word"
  done
  ! commands "$tree" | grep -e -Wshadow -e -Wconversion || fail "tamis adds warnings of its own"
  ! ctest --test-dir "$tree" -N | grep 'Test *#' || fail "tamis adds tests"
  ! grep -E '^(CMAKE_BUILD_TYPE|TAMIS_(BUILD_.*|INSTALL|WERROR)):[A-Z]*=.' "$tree/CMakeCache.txt" |
    grep -v '=OFF$' || fail "tamis changes the parent's settings"
done
[ $compilers -gt 0 ] || fail "neither gcc nor clang was found"

echo "a build type that the parent sets"
quiet cmake -S "$here" -B "$work/debug" -DTAMIS_SOURCE="$source" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
! commands "$work/debug" | grep -e ' -O' || fail "tamis overrides the parent's build type"
