#!/bin/bash
# SPDX-License-Identifier: MIT
# The library that Meson builds is the one that CMake builds: the same sources, defines and flags, and the same file
# for pkg-config.  With --build it is built as well, from an archive that a wrap file names, below a parent that is
# strict about warnings; the exported symbols and the libraries that it needs are compared; it is installed; and
# programs find it and CMake's installation by pkg-config.
#
#   meson.sh SOURCE_DIR BUILD_DIR [--build]
set -eu
source=$1 build=$2 here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }
fail() { echo "$1"; exit 1; }
version=$(sed -n 's/^Version: //p' "$build/tamis.pc")

# compiled BUILD_DIR: the library's sources, each with its defines and what changes the code, without the level of
# optimisation, which the user of a build chooses.
compiled() {
  python3 - "$1" <<'PYTHON'
import json, pathlib, re, sys
root = pathlib.Path(sys.argv[1])
for entry in json.loads((root / "compile_commands.json").read_text()):
    path = re.search(r"/(lib/.*\.c)$", str((pathlib.Path(entry["directory"]) / entry["file"]).resolve()))
    if path and re.search(r"tamis_objects|libtamis\.so", entry["command"]):
        words = set(re.findall(r" (-[Df]\S+)", entry["command"]))
        # Meson adds these, which mean nothing on 64 bits and in a log.
        words -= {"-D_FILE_OFFSET_BITS=64", "-fdiagnostics-color=always"}
        print(path[1], *sorted(words))
PYTHON
}
same() { diff "$2" "$3" >"$work/diff" || { echo "$1: CMake (<) and Meson (>)"; cat "$work/diff"; exit 1; }; }

quiet meson setup "$work/alone" "$source" --prefix "$work/prefix" --libdir lib
compiled "$build" | sort >"$work/cmake"
compiled "$work/alone" | sort >"$work/meson"
[ "$(wc -l <"$work/cmake")" -gt 50 ] || fail "the sources were not found: $(cat "$work/cmake")"
same "what is compiled" "$work/cmake" "$work/meson"
grep -v '^[a-z]*dir=\|^prefix=\|^Libs.private' "$build/tamis.pc" >"$work/cmake"
grep -v '^[a-z]*dir=\|^prefix=\|^Libs.private' "$work/alone/tamis.pc" >"$work/meson"
same "tamis.pc" "$work/cmake" "$work/meson"

# The comparison finds a flag that is missing.
mkdir "$work/broken"
(cd "$source" && cp -R meson.build CMakeLists.txt cmake include lib "$work/broken")
sed -i "s/, '-ffp-contract=off'//" "$work/broken/meson.build"
quiet meson setup "$work/changed" "$work/broken"
compiled "$work/changed" | sort >"$work/meson"
compiled "$build" | sort >"$work/cmake"
! (same "" "$work/cmake" "$work/meson") >/dev/null || fail "a flag that is missing is not found"
[ "${3:-}" ] || exit 0

echo "below a parent, from a wrap file"
mkdir -p "$work/parent/subprojects/packagecache"
cp "$here/consumer.c" "$work/parent/"
sed "s/@VERSION@/$version/" "$here/meson.build" >"$work/parent/meson.build"
archive=$work/parent/subprojects/packagecache/tamis-$version.tar.gz
tar -C "$source" --transform "s,^,tamis-$version/," -czf "$archive" meson.build CMakeLists.txt cmake include lib
sum=$(sha256sum "$archive")
sed "s/@VERSION@/$version/; s/@SHA256@/${sum%% *}/" "$source/packaging/tamis.wrap" >"$work/parent/subprojects/tamis.wrap"
quiet meson setup "$work/below" "$work/parent" --wrap-mode forcefallback -Dbuildtype=debugoptimized \
  --prefix "$work/prefix" --libdir lib
quiet ninja -C "$work/below"
"$work/below/consumer"
quiet meson install -C "$work/below"

exports() { nm -D --defined-only "$1" | awk '{ print $2, $3 }' | sort; }
needs() { LC_ALL=C readelf -d "$1" | sed -n 's/.*(\(NEEDED\|SONAME\|FLAGS.*\)) *//p' | sort; }
for what in exports needs; do
  $what "$build/libtamis.so" >"$work/cmake"
  $what "$work/prefix/lib/libtamis.so" >"$work/meson"
  same "$what" "$work/cmake" "$work/meson"
done

quiet cmake --install "$build" --prefix "$work/other"
for prefix in "$work/prefix" "$work/other"; do
  echo "by pkg-config"
  export PKG_CONFIG_PATH
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tamis.pc)")
  rm -rf "$work/found"
  quiet meson setup "$work/found" "$work/parent" --wrap-mode nofallback
  quiet ninja -C "$work/found"
  "$work/found/consumer"
done
