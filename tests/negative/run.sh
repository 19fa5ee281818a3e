#!/bin/bash
# SPDX-License-Identifier: MIT
# Seeds one bug and demands that the check that is there for it finds it.
#
#   run.sh SOURCE_DIR WORK_DIR NAME          by its own check
#   run.sh SOURCE_DIR WORK_DIR NAME LIST     by each check of a list, one a line: says which find it
#
# The file NAME.bug says what the bug is, how the broken library is built, and which check must fail;
# `seed`, beside this script, describes the format and applies the bug.
#
# WORK_DIR keeps trees that are built without a bug, one for each that runs at the same time: so only
# what a bug changes is compiled.
set -u
source=$1 work=$2 name=$3 list=${4:-}
seed=$source/tests/negative/seed
field() { "$seed" field "$name" "$1"; }
build=$(field Build) says=$(field Says) reason=$(field Survives)
read -r -a check <<<"$(field Check)"
test=$(field Test)
if [ -n "$reason" ]; then
  build=release check=(tamis_static)
elif [ -z "$build" ] || [ -z "$says" ] || [ ${#check[@]} -eq 0 ]; then
  echo "$name: incomplete header"
  exit 2
fi
[ -z "$list" ] || build=release
target=${check[0]}
[[ $target != redis/* ]] || target=module-tests
[[ $target != examples/* ]] || target=$(dirname "$target")/all
[ -z "$list" ] || target=all

# ---- a tree that nobody else uses ----

mkdir -p "$work" || exit 2
for ((slot = 0;; slot++)); do
  exec {lock}>"$work/$slot.lock"
  flock -n "$lock" && break
  exec {lock}>&-
done
tree=$work/$slot clean=$work/$slot.clean
export CCACHE_BASEDIR=$tree # if a cache of compilations is used, it looks at no path of this tree
reset() { [ ! -d "$clean" ] || { rm -rf "$tree" && mv "$clean" "$tree"; }; }
reset # the one before was killed
trap reset EXIT

make_target() {
  cmake --build "build/$build" --target "$target" >build.log 2>&1 || { tail -n 30 build.log; return 1; }
}
configure() {
  # As the other builds are, so that a cache of compilations has most of it already.
  cmake --preset "$build" -DTAMIS_WERROR=OFF -DTAMIS_BUILD_TOOL=OFF -DTAMIS_BUILD_BENCH=OFF >build.log 2>&1 ||
    { tail -n 30 build.log; return 1; }
}
mkdir -p "$tree" && cd "$tree" || exit 2
# With their times, by which ninja knows what has changed.
(cd "$source" && cp -a CHANGELOG.md CMakeLists.txt CMakePresets.json include lib cmake docs examples redis stress tests "$tree") || exit 2
[ -f "build/$build/build.ninja" ] || configure || exit 2
make_target || { echo "$name: the library does not build without it"; exit 2; }
rm -rf "$clean.part" && cp -a "$tree" "$clean.part" && mv "$clean.part" "$clean" || exit 2

# ---- the bug ----

"$seed" apply . "$name" || { echo "$name: the bug does not apply"; exit 2; }
make_target || { echo "$name: the broken library does not build"; exit 2; }
program() { find "build/$build/tests" "build/$build/stress" -maxdepth 1 -type f -name "$1" -perm -u+x; }
# A check that hangs is ended, however busy the machine is.
run_check() {
  case ${check[0]} in
  redis/*) timeout 600 "${check[@]}" --server redis --module "build/$build/redis/tamis-redis.so" ${test:+"$test"} ;;
  examples/*) timeout 600 "${check[@]}" --short --programs "build/$build/$(dirname "${check[0]}")" ;;
  *) timeout 600 "$(program "${check[0]}")" "${check[@]:1}" ;;
  esac
}

if [ -n "$list" ]; then
  while read -r -a check; do
    timeout -s KILL 60 "$(program "${check[0]}")" "${check[@]:1}" >out.log 2>&1 || echo "found by: ${check[*]}"
  done <"$list"
  exit 0
fi
if [ -n "$reason" ]; then
  echo "survives: $name: $reason"
  exit 0
fi

# Some checks need threads to meet by chance: they get a minute for it, and ten tries on a busy machine.  A
# test of its own does not.
tries=0 status=0
deadline=$((SECONDS + 60)) least=10
[ -z "$test" ] || { export TAMIS_TEST=$test; deadline=$((SECONDS + 1)) least=1; }
while [ $status -eq 0 ] && { [ $tries -lt $least ] || [ $SECONDS -lt $deadline ]; }; do
  tries=$((tries + 1))
  run_check >out.log 2>&1
  status=$?
done
if [ $status -eq 0 ]; then
  tail -n 20 out.log
  echo "NOT CAUGHT: $name by ${check[*]} in $tries tries"
  exit 1
fi
if ! grep -aEq -- "$says" out.log; then
  tail -n 20 out.log
  echo "NOT CAUGHT: $name: ${check[*]} failed (status $status) without saying '$says'"
  exit 1
fi
echo "caught: $name by ${check[*]}, try $tries: $(grep -aEm1 -- "$says" out.log)"
