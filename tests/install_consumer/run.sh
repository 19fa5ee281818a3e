#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs the package into an empty folder, moves that folder, and builds programs against it in
# every way that the README names.
#
#   run.sh SOURCE_DIR BUILD_DIR
set -eu
source=$1 build=$2 here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved" # the package must not remember where it was put

echo "find_package"
cmake -S "$here" -B "$work/find" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" ||
  { cat "$work/log"; exit 1; }
cmake --build "$work/find" >"$work/log" || { cat "$work/log"; exit 1; }
for program in consumer_c consumer_cxx consumer_static; do "$work/find/$program"; done

echo "add_subdirectory"
cmake -S "$here" -B "$work/sub" -G Ninja -DTAMIS_SOURCE="$source" >"$work/log" ||
  { cat "$work/log"; exit 1; }
cmake --build "$work/sub" >"$work/log" || { cat "$work/log"; exit 1; }
for program in consumer_c consumer_cxx; do "$work/sub/$program"; done

echo "pkg-config"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name tamis.pc)")
read -r -a flags <<<"$(pkg-config --cflags --libs tamis)"
cc -std=c11 "$here/consumer.c" "${flags[@]}" -pthread -o "$work/pc"
libdir=$(pkg-config --variable=libdir tamis)
LD_LIBRARY_PATH=$libdir "$work/pc"
[ "$(pkg-config --modversion tamis)" = "$(sed -n 's/^Version: //p' "$PKG_CONFIG_PATH/tamis.pc")" ]
