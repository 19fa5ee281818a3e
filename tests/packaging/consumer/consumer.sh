#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs the package into an empty folder and uninstalls it again.  Then installs it once more, moves the
# folder, and builds programs against it by CMake and by pkg-config.
#
#   consumer.sh SOURCE_DIR BUILD_DIR
set -eu
build=$2 here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quiet() { "$@" >"$work/log" 2>&1 && ! grep -q 'CMake.*Warning' "$work/log" || { cat "$work/log"; exit 1; }; }

# What runs when the package is built, before it is installed.
quiet cmake -D SOURCE="$1" -D HEADER="$work/commit.h" -P "$1/cmake/commit.cmake"

echo "uninstall"
quiet cmake --install "$build" --prefix "$work/first"
touch "$work/first/include/of-others"
quiet cmake --build "$build" --target uninstall
left=$(find "$work/first" ! -type d -o -name '*tamis*')
[ "$left" = "$work/first/include/of-others" ] || { echo "after uninstall there is: $left"; exit 1; }

quiet cmake --install "$build" --prefix "$work/first"
module=$(find "$work/first" -name tamis-redis.so)
[ -z "$module" ] || [ -x "$module" ] || { echo "Redis would not load $module: it may not be executed"; exit 1; }
mv "$work/first" "$work/moved" # the package must not remember where it was put

if [ -x "$work/moved/bin/tamis" ]; then
  [ -s "$work/moved/share/bash-completion/completions/tamis" ] &&
    [ -s "$work/moved/share/zsh/site-functions/_tamis" ] || { echo "the command comes without completion"; exit 1; }
fi

[ -n "$(find "$work/moved" -path '*/docs/manual/details/tamis_add.md')" ] ||
  { echo "the documentation comes without the fine print of the calls"; exit 1; }

echo "find_package"
quiet cmake -S "$here" -B "$work/find" -DCMAKE_PREFIX_PATH="$work/moved"
quiet cmake --build "$work/find"
for program in "$work"/find/consumer_*; do (cd "$work" && "$program"); done

echo "pkg-config"
pc=$(find "$work/moved" -name tamis.pc)
# No other .pc file can be found: on a machine that has only the shared libraries there is none.
export PKG_CONFIG_LIBDIR
PKG_CONFIG_LIBDIR=$(dirname "$pc")
[ "$(pkg-config --modversion tamis)" = "$(sed -n 's/^Version: //p' "$pc")" ]
libdir=$(pkg-config --variable=libdir tamis)
includedir=$(pkg-config --variable=includedir tamis)
cflags=$(pkg-config --cflags tamis) libs=$(pkg-config --libs tamis)
[ "${cflags% }" = "-I$includedir" ] || { echo "--cflags asks for more than the header: $cflags"; exit 1; }
[ "${libs% }" = "-L$libdir -ltamis" ] || { echo "--libs asks for more than the library: $libs"; exit 1; }
read -r -a flags <<<"$cflags $libs"
cc -std=c11 "$here/consumer.c" "${flags[@]}" -o "$work/shared"
LD_LIBRARY_PATH=$libdir "$work/shared"

echo "pkg-config --static"
rm "$libdir"/libtamis.so*
read -r -a flags <<<"$(pkg-config --static --cflags --libs tamis)"
cc -std=c11 "$here/consumer.c" "${flags[@]}" -o "$work/static"
"$work/static"

[ -e "$libdir/pkgconfig/tamis-tsan.pc" ] || exit 0
echo "pkg-config, for ThreadSanitizer"
rm "$libdir/libtamis.a"
read -r -a flags <<<"$(pkg-config --cflags --libs tamis-tsan)"
cc -std=c11 "$here/consumer.c" "${flags[@]}" -o "$work/tsan"
"$work/tsan"
