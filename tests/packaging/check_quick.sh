#!/bin/bash
# SPDX-License-Identifier: MIT
# Each program of examples/quick compiles without a warning and prints what its last lines say.  A program
# that prints something else is noticed.
#
#   check_quick.sh SOURCE_DIR SHARED_LIBRARY
set -eu
source=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # where the programs write their files
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
link=("$library" "-Wl,-rpath,$(dirname "$library")" -pthread -o ./program)

promised() { sed -nE "s%^(/\*|#) prints$1: (.*[^ ])( \*/)?$%\2%p" "$2" | sed 's% \*/$%%'; } # AMONG FILE
check() { # FILE
  case $1 in
  *.c) cc -std=c11 "${warnings[@]}" -I"$source/include" "$1" "${link[@]}" && ./program >out || return 1 ;;
  *.cpp) c++ -std=c++17 "${warnings[@]}" -I"$source/include" "$1" "${link[@]}" && ./program >out || return 1 ;;
  *.py) python3 "$1" "$library" >out || return 1 ;;
  esac
  promised "" "$1" >all
  promised ", among others" "$1" >some
  [ -s all ] || [ -s some ] || { echo "$1 does not say what it prints"; return 1; }
  [ ! -s all ] || diff all out || return 1
  [ ! -s some ] || ! grep -vxFf out some || return 1
}

count=0
for file in "$source"/examples/quick/*.*; do
  name=$(basename "$file")
  [ "$name" != README.md ] || continue
  if [[ $name = *.cpp ]] && ! command -v c++ >/dev/null; then continue; fi
  count=$((count + 1))
  check "$file" || { echo "$name does not do what it says"; exit 1; }
  grep -q "]($name)" "$source/examples/quick/README.md" || { echo "README.md does not name $name"; exit 1; }
done
[ $count -ge 15 ] || { echo "only $count programs"; exit 1; }

sed 's/prints: fig/prints: figs/' "$source/examples/quick/duplicates.c" >other.c
! check ./other.c >/dev/null || { echo "another line is not noticed"; exit 1; }
sed 's/"sessions"} 1 /"sessions"} 2 /' "$source/examples/quick/metrics.c" >other.c
! check ./other.c >/dev/null || { echo "a line that is missing is not noticed"; exit 1; }
echo "$count programs"
