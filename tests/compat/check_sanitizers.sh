#!/bin/bash
# SPDX-License-Identifier: MIT
# A program that publishes data through filters (test_published.c), under the sanitizers and valgrind of those
# who use the library: docs/reference/packaging.md says what they have to say, and where they are mistaken.
#
#   check_sanitizers.sh SOURCE_DIR SHARED_LIBRARY [TSAN_LIBRARY]
#
# SHARED_LIBRARY is the plain library, and TSAN_LIBRARY, where it is built, that of tamis::tsan.
set -eu
source=$1 plain=$2 tsan=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { cat out; echo "$1"; exit 1; }
"$source/script/amalgamate" one
one_file=(-lurcu-bp -lm -lpthread)
shared=("$plain" "-Wl,-rpath,$(dirname "$plain")" -lpthread)

# program COMPILER SANITIZER ARGUMENT...: compiles the program.
program() {
  "$1" -std=c11 -D_GNU_SOURCE -O1 -g ${2:+-fsanitize=$2} -I"$source/include" "$source/tests/compat/test_published.c" "${@:3}" -o program
}
silent() { # WHAT COMMAND ...: the command has nothing to say of the program
  echo "$1"
  "${@:2}" >out 2>&1 || fail "$1: there is something to say"
  ! grep -E '==[0-9]+==|WARNING|runtime error' out || fail "$1: something is said"
}
mistaken() { # WHAT PATTERN FILTER: the check can see what is not silent
  echo "$1"
  ! ./program "$3" >out 2>&1 || fail "$1: nothing is said"
  grep -q "$2" out || fail "$1: not what is said of such a program"
}
compiled() { "$1" -std=c11 -O0 -g -fsanitize="$2" -Wall -Wextra -Werror -Ione -c one/tamis.c -o "$1-$2.o"; }

none=1
for compiler in gcc clang; do
  command -v $compiler >/dev/null || continue
  none=
  program $compiler address,undefined "${shared[@]}"
  silent "$compiler, address and undefined behaviour, the plain library" ./program
  program $compiler thread "${shared[@]}"
  for filter in word cuckoo; do
    mistaken "$compiler, threads, the plain library, $filter" 'ThreadSanitizer: data race.*in \(follow\|compete\)' $filter
  done
  compiled $compiler thread
  program $compiler thread $compiler-thread.o "${one_file[@]}"
  silent "$compiler, threads, the one file" ./program
  if [ "$tsan" ]; then
    program $compiler thread "$tsan" "${one_file[@]}"
    silent "$compiler, threads, tamis::tsan" ./program
  fi
done
[ -z "$none" ] || { echo "neither gcc nor clang was found"; exit 1; }

if command -v clang >/dev/null; then
  program clang memory "${shared[@]}"
  mistaken "clang, memory, the plain library" 'MemorySanitizer: use-of-uninitialized-value' word
  compiled clang memory
  program clang memory clang-memory.o "${one_file[@]}"
  silent "clang, memory, the one file" ./program
fi

if command -v valgrind >/dev/null; then
  program "${CC:-cc}" "" -DWITH_VALGRIND "${shared[@]}"
  for tool in memcheck helgrind drd; do
    for filter in layers cuckoo; do # those that grow at other times do other things in each run
      silent "$tool, the plain library, $filter" \
        valgrind -q --tool=$tool --error-exitcode=1 --suppressions="$source/packaging/tamis.supp" ./program $filter
    done
  done
fi
