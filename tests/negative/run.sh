#!/bin/bash
# SPDX-License-Identifier: MIT
# Seeds one bug and demands that the checker that is there for it finds it.
#
#   run.sh SOURCE_DIR NAME
#
# NAME.patch begins with what the bug is, and three lines:
#   Build: release | tsan      how the broken library is built
#   Check: TARGET [ARG ...]    the program that must fail
#   Says:  REGEX               what it must print while failing
set -u
source=$1 name=$2
patch=$source/tests/negative/$name.patch
field() { sed -n "s/^$1: *//p" "$patch" | head -n 1; }
build=$(field Build) says=$(field Says)
read -r -a check <<<"$(field Check)"
[ -n "$build" ] && [ -n "$says" ] && [ ${#check[@]} -gt 0 ] || { echo "$name: incomplete header"; exit 2; }

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$source" && cp -R CMakeLists.txt include lib cmake stress tests "$work" && cd "$work" || exit 2
patch -s -p1 --no-backup-if-mismatch <"$patch" || { echo "$name: the patch no longer applies"; exit 2; }

sanitize=
[ "$build" = tsan ] && sanitize=thread
{ cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAMIS_SANITIZE=$sanitize \
        -DTAMIS_BUILD_TOOL=OFF && cmake --build build --target "${check[0]}"; } >build.log 2>&1 ||
  { tail -n 30 build.log; echo "$name: the broken library does not build"; exit 2; }

# Some checkers need threads to meet by chance: they get a minute for it.
program=$(find build -type f -name "${check[0]}" -perm -u+x | head -n 1)
tries=0 status=0
deadline=$((SECONDS + 60))
while [ $status -eq 0 ] && [ $SECONDS -lt $deadline ]; do
  tries=$((tries + 1))
  timeout 120 "$program" "${check[@]:1}" >out.log 2>&1
  status=$?
done
if [ $status -eq 0 ]; then
  tail -n 20 out.log
  echo "NOT CAUGHT: $name by ${check[*]} in $tries tries"
  exit 1
fi
if ! grep -Eq -- "$says" out.log; then
  tail -n 20 out.log
  echo "NOT CAUGHT: $name: ${check[*]} failed (status $status) without saying '$says'"
  exit 1
fi
echo "caught: $name by ${check[*]}, try $tries: $(grep -Em1 -- "$says" out.log)"
