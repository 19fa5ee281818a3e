#!/bin/bash
# SPDX-License-Identifier: MIT
# The library as one file compiles, by gcc and clang, without a warning; programs in C and C++ use it; and each
# define leaves out what it says, and nothing else.
#
#   check_one_file.sh SOURCE_DIR
#
# Without TAMIS_LONG=1 in the environment, gcc compiles all of it, and clang what all defines together leave.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "$1"; exit 1; }
"$source/script/amalgamate" one
[ "$(cd one && find . -type f | sort | xargs)" = "./tamis.c ./tamis/tamis.h" ] || fail "there is more or less than two files"

# tried COMPILER DEFINE...: compiles the library and the program, and runs it.
tried() {
  local object=lib-$1.o
  "$1" -std=c11 -O0 -Wall -Wextra -Wpedantic -Werror -Ione "${@:2}" -c one/tamis.c -o "$object"
  local libraries=(-lm -lpthread)
  case " ${*:2} " in
  *WITHOUT_CUCKOO_GROWTH*) ! nm -u "$object" | grep urcu || fail "it needs liburcu with ${*:2}" ;;
  *) libraries+=(-lurcu-bp) ;;
  esac
  case " ${*:2} " in
  *WITHOUT_FILES*) ! nm "$object" | grep -E ' T tamis_(save_file|load_file|map_file|open_shared)$' || fail "files with ${*:2}" ;;
  esac
  "$1" -std=c11 -Wall -Wextra -Werror -Ione "${@:2}" "$source/tests/compat/one_file.c" "$object" "${libraries[@]}" -o program
  ./program grown.tamis window.tamis window_of_copies.tamis
}
compilers=()
for compiler in gcc clang; do
  ! command -v $compiler >/dev/null || compilers+=("$compiler")
done
[ ${#compilers[@]} -gt 0 ] || fail "neither gcc nor clang was found"
compiler=${compilers[0]} last=${compilers[-1]}
for one in $(printf '%s\n' "$compiler" ${TAMIS_LONG:+"$last"} | uniq); do
  echo "$one"
  tried "$one"
done
echo "the program of README.md"
awk '/^```$/ && on { exit } on; /^```c$/ { on = 1 }' "$source/README.md" >shortest.c
"$compiler" -O0 -Wall -Wextra -Werror -Ione shortest.c "lib-$compiler.o" -lurcu-bp -lm -lpthread -o shortest
./shortest | grep -qF "$(sed -n 's,^/[*] prints: \(.*\) [*]/$,\1,p' shortest.c)" || fail "the program of README.md does not print what it says"
if command -v g++ >/dev/null; then
  echo "C++"
  g++ -std=c++11 -Wall -Wextra -Werror -Ione -x c++ "$source/tests/compat/one_file.c" -x none "lib-$compiler.o" -lurcu-bp -lm -lpthread -o program
  ./program
fi
all=()
for define in TAMIS_WITHOUT_CUCKOO_GROWTH TAMIS_WITHOUT_WINDOWS TAMIS_WITHOUT_FILES; do
  all+=("-D$define")
done
[ -z "${TAMIS_LONG:-}" ] || for define in "${all[@]}"; do
  echo "$define"
  tried "$compiler" "$define"
done
echo "${all[*]}"
tried "$last" "${all[@]}"
