#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds tamis below a parent project that is strict about warnings, and checks what the parent gets: where it
# sets no build type an optimised library, and neither tests nor warnings that it did not ask for.  gcc builds
# that, and clang what a parent gets that sets a build type.
#
#   subproject.sh SOURCE_DIR BUILD_DIR
set -eu
source=$1 here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }
fail() { echo "$1"; exit 1; }
commands() { grep '"command":.*/lib/' "$1/compile_commands.json" || fail "no command compiles lib/"; }

# built TREE COMPILER OPTION...: configures and builds a parent, and runs its programs.
built() {
  quiet cmake -S "$here" -B "$1" -DTAMIS_SOURCE="$source" -DCMAKE_C_COMPILER="$2" \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${@:3}"
  quiet cmake --build "$1" --parallel 2
  for program in "$1"/consumer_*; do (cd "$work" && "$program"); done
}

compilers=()
for compiler in gcc clang; do
  command -v $compiler >/dev/null && compilers+=("$compiler")
done
[ ${#compilers[@]} -gt 0 ] || fail "neither gcc nor clang was found"

echo "add_subdirectory, ${compilers[0]}"
tree=$work/default
built "$tree" "${compilers[0]}"
for word in -O2 -Wpedantic -std=c11 -DNDEBUG; do
  ! commands "$tree" | grep -v -e " $word " || fail "lib/ is compiled without $word"
done
! commands "$tree" | grep -e -Wshadow -e -Wconversion || fail "tamis adds warnings of its own"
! ctest --test-dir "$tree" -N | grep 'Test *#' || fail "tamis adds tests"
! grep -E '^(CMAKE_BUILD_TYPE|TAMIS_(BUILD_.*|INSTALL|WERROR)):[A-Z]*=.' "$tree/CMakeCache.txt" |
  grep -v '=OFF$' || fail "tamis changes the parent's settings"

echo "a build type that the parent sets, ${compilers[-1]}"
built "$work/debug" "${compilers[-1]}" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_UNITY_BUILD=ON
! commands "$work/debug" | grep -e ' -O' || fail "tamis overrides the parent's build type"

echo "what the parent exports and installs"
grep -q 'tamis::static' "$tree/exported.cmake" || fail "what the parent exports does not name the library"
quiet cmake --install "$tree" --prefix "$work/installed"
[ -z "$(find "$work/installed" -name '*tamis*')" ] || fail "tamis installs itself below a parent unasked"

echo "liburcu in a prefix of its own"
prefix=$work/prefix libdir=$(pkg-config --variable=libdir liburcu-bp)
mkdir -p "$prefix/lib/pkgconfig"
cp "$libdir"/liburcu-{bp,common}.so "$prefix/lib/"
sed "s,$libdir,$prefix/lib,; s,^libdir=.*,libdir=$prefix/lib," "$libdir/pkgconfig/liburcu-bp.pc" >"$prefix/lib/pkgconfig/liburcu-bp.pc"
PKG_CONFIG_PATH=$prefix/lib/pkgconfig quiet cmake -S "$here" -B "$work/own" -G Ninja -DTAMIS_SOURCE="$source"
for program in consumer_c consumer_static; do
  ninja -C "$work/own" -t commands "$program" | tail -n 1 | grep -qe "-L$prefix/lib " || fail "liburcu is not looked for where it is"
done
