#!/bin/sh
# SPDX-License-Identifier: MIT
# The shared library exports the public functions, all of them, and nothing else.  The list of symbols of
# Debian's package has the same ones.
#
#   check_exports.sh LIBRARY NM HEADER DEBIAN_SYMBOLS
set -u
extra=$("$2" -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | grep -v '^tamis_[a-z]' ; true)
private=$("$2" -D --defined-only "$1" | awk '{ print $3 }' | grep '^tamis__' ; true)
if [ -n "$extra$private" ]; then
  echo "exported, but not public: $extra $private"
  exit 1
fi
exported=$("$2" -D --defined-only "$1" | sed -n 's/.* T \(tamis_[a-z_]*\).*/\1/p' | sort)
declared=$(sed -n 's/^TAMIS_API [^(]*\(tamis_[a-z_]*\)(.*/\1/p' "$3" | sort)
if [ "$declared" != "$exported" ]; then
  echo "declared: $declared but exported: $exported"
  exit 1
fi
listed=$(sed -n 's/^ \(tamis_[a-z_]*\)@.*/\1/p' "$4" | sort)
if [ "$listed" != "$exported" ]; then
  echo "$4 has $listed but these are exported: $exported"
  exit 1
fi
# Of the memory for each thread that a program has room for when it loads plugins, each that contains the
# library takes a little.
memory=$(readelf -lW "$1" | awk '$1 == "TLS" { print $6 }')
[ $((memory)) -le 64 ] || { echo "the library takes $((memory)) bytes of each thread"; exit 1; }
# Printing and ending the process are the program's business.
calls=$("$2" -D --undefined-only "$1" | awk '{ print $2 }' |
        grep -E '^(f?printf|puts|fputs|fwrite|perror|abort|exit|_exit)(@|$)' ; true)
case "$calls" in
"") exit 0 ;;
*) echo "the library calls: $calls"; exit 1 ;;
esac
