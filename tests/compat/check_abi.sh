#!/bin/bash
# SPDX-License-Identifier: MIT
# The ABI of the library is that of the last release (tests/compat/abi/last.abi), but for the changes that
# tests/compat/abi/changes.txt names.  docs/reference/versions.md says how a change is written down.
#
#   check_abi.sh SOURCE_DIR BUILD_DIR CC SONAME           compares
#   check_abi.sh SOURCE_DIR BUILD_DIR CC SONAME accept    writes today's changes down
#   check_abi.sh SOURCE_DIR BUILD_DIR CC SONAME release   today's ABI is that of the last release
#
# What is compared is the library as it is linked, with debugging information for the files that define
# public functions.
set -eu
source=$1 build=$2 cc=$3 soname=$4 mode=${5:-compare}
abi=$source/tests/compat/abi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

public=$(nm -A --defined-only "$build/libtamis.a" |
  sed -n 's/.*libtamis.a:\(.*\)\.c\.o:.* T tamis_[a-z].*/\1/p' | sort -u)
# The results are values of an enumeration that no function names, so abidw does not see them.
dump() { # OUT INCLUDE_DIR: writes OUT.abi and OUT.results
  local file objects=()
  for file in $public; do
    objects+=("$1.$file.o")
    "$cc" -std=c11 -g -ffile-prefix-map="$source/=" -fPIC -fvisibility=hidden -D_GNU_SOURCE \
      -DNDEBUG -I"$2" -I"$source/lib" -c "$source/lib/$file.c" -o "$1.$file.o"
  done
  "$cc" -shared -Wl,-soname,"$soname" -Wl,--version-script="$build/tamis.map" -o "$1.so" "${objects[@]}" \
    "$build/libtamis.a" -lurcu-bp -lm
  abidw --headers-dir "$2/tamis" --exported-interfaces-only --drop-private-types --no-corpus-path \
    --no-comp-dir-path --no-show-locs --no-elf-needed --type-id-style hash --out-file "$1.abi" "$1.so"
  sed -n 's/^  \(TAMIS_[A-Z]* = -\{0,1\}[0-9]*\).*/\1/p' "$2/tamis/tamis.h" |
    sort >"$1.results"
}
status=0
compare() { # A B: prints what has changed; sets status to that of abidiff
  status=0
  abidiff "$1.abi" "$2.abi" || status=$?
  diff "$1.results" "$2.results" || true
}

dump "$work/today" "$source/include"
if [ "$mode" = release ]; then
  mkdir -p "$abi"
  cp "$work/today.abi" "$abi/last.abi"
  cp "$work/today.results" "$abi/last.results"
  : >"$abi/changes.txt"
  exit
fi
compare "$abi/last" "$work/today" >"$work/changes.txt"
if [ "$mode" = accept ]; then
  cp "$work/changes.txt" "$abi/changes.txt"
  exit
fi
if ! diff -u "$abi/changes.txt" "$work/changes.txt"; then
  echo "the ABI has changed, and tests/compat/abi/changes.txt does not say so (docs/reference/versions.md)"
  exit 1
fi
# The fourth bit of the status says that programs which were built before cannot run.
if [ $((status & 8)) -ne 0 ] && grep -q "soname='$soname'" "$abi/last.abi"; then
  echo "programs that use $soname no longer run"
  exit 1
fi

# This check finds what it is for: another type of a field, and other numbers.
mkdir -p "$work/other/tamis"
changed() { # EXPRESSION WORD: the change that sed makes to the header is found, and called by this word
  sed "$1" "$source/include/tamis/tamis.h" >"$work/other/tamis/tamis.h"
  ! cmp -s "$source/include/tamis/tamis.h" "$work/other/tamis/tamis.h" || { echo "no change: $1"; exit 1; }
  dump "$work/other/changed" "$work/other"
  compare "$work/today" "$work/other/changed" >"$work/found"
  grep -q -- "$2" "$work/found" || { echo "not found: $1"; cat "$work/found"; exit 1; }
}
changed 's/^  uint64_t max_bytes;/  int64_t max_bytes;/' "max_bytes"
changed 's/^  TAMIS_COUNTING_BLOOM = 3/  TAMIS_COUNTING_BLOOM = 4/' "TAMIS_COUNTING_BLOOM"
changed 's/TAMIS_EFULL = -3/TAMIS_EFULL = -7/' "TAMIS_EFULL"
