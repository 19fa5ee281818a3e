#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds one mutant and demands that the check that is there for it finds it.
#
#   run.sh SOURCE_DIR WORK_DIR NAME
#
# `mutate`, beside this script, describes the mutants, and applies them.
#
# WORK_DIR/merged is one tree with all mutants that can be merged, and a build of it for each kind: such a mutant
# is a number in the environment.  If TAMIS_MUTANTS names some, WORK_DIR/some is a tree that has these alone:
# few files differ from the library's, so a cache of compilations has the others.  A mutant that cannot be
# merged has a tree that is built without it first, one for each that runs at the same time: so only what the
# mutant changes is compiled.
set -u
source=$1 work=$2 name=$3
mutate=$source/tests/mutants/mutate
mapfile -t fields < <("$mutate" field "$name" Build Says Survives Test Check)
build=${fields[0]} says=${fields[1]} reason=${fields[2]} test=${fields[3]}
read -r -a check <<<"${fields[4]}"
if [ -n "$reason" ]; then
  build=release check=(tamis_static)
elif [ -z "$build" ] || [ -z "$says" ] || [ ${#check[@]} -eq 0 ]; then
  echo "$name: incomplete header"
  exit 2
fi
target=${check[0]}
[[ $target != redis/* ]] || target=module-tests
[[ $target != nginx/* ]] || target=nginx-tests
[[ $target != examples/* ]] || target=$(dirname "$target")/all
[[ $target != tests/tool/* ]] || target=tamis-tool
[[ $target != tests/compat/* ]] || target=test_hostile
[[ $target != python/* ]] || target=python-tests
[[ $target != js/* && $target != site/* ]] || target=js-tests

copied=(CHANGELOG.md CMakeLists.txt CMakePresets.json include lib cmake docs examples js nginx python redis site stress tests tools)
make_target() {
  cmake --build "build/$build" --target "$target" >"build.$build.log" 2>&1 ||
    { tail -n 30 "build.$build.log"; return 1; }
}
configure() {
  [ ! -f "build/$build/build.ninja" ] || return 0
  # The calls on keys in one copy: with a body for each mutant, many copies would be compiled for ten minutes.
  cmake --preset "$build" -DTAMIS_WERROR=OFF -DTAMIS_BUILD_BENCH=OFF -DCMAKE_C_FLAGS=-DTAMIS_ONE_COPY >"build.$build.log" 2>&1 ||
    { tail -n 30 "build.$build.log"; return 1; }
}

# ---- the tree of all mutants ----

use_merged() { # sets number, which is empty if the mutant is not merged
  local some=${TAMIS_MUTANTS:-}
  tree=$work/merged
  [ -z "$some" ] || tree=$work/some
  mkdir -p "$tree" && cd "$tree" || exit 2
  export CCACHE_BASEDIR=$tree
  exec {lock}>"$tree.lock"
  flock "$lock"
  if [ ! -f merged.stamp ] || [ "$(cat merged.stamp)" != "$some" ] ||
    [ -n "$(cd "$source" && find "${copied[@]}" -newer "$tree/merged.stamp" -print -quit)" ]; then
    echo "$some" >merged.stamp.new
    # shellcheck disable=SC2086 # names
    "$mutate" merge "$source" . $some && mv merged.stamp.new merged.stamp || exit 2
  fi
  number=$(sed -n "s/^$name //p" merged.list)
  if [ -n "$number" ]; then
    configure || exit 2
    make_target || { echo "$name: the library does not build with all mutants"; exit 2; }
  fi
  exec {lock}>&-
}

# ---- a tree of its own ----

use_own() {
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
  mkdir -p "$tree" && cd "$tree" || exit 2
  # With their times, by which ninja knows what has changed.
  (cd "$source" && cp -a "${copied[@]}" "$tree") || exit 2
  configure || exit 2
  make_target || { echo "$name: the library does not build without it"; exit 2; }
  rm -rf "$clean.part" && cp -a "$tree" "$clean.part" && mv "$clean.part" "$clean" || exit 2
  "$mutate" apply . "$name" || { echo "$name: the mutant does not apply"; exit 2; }
  make_target || { echo "$name: the broken library does not build"; exit 2; }
}

mkdir -p "$work" || exit 2
use_merged
[ -n "$number" ] || use_own
output=$work/$name.out

# ---- the check ----

program() { find "build/$build"/{tests,stress,redis/tests} -maxdepth 1 -type f -name "$1" -perm -u+x; }
pytest() { timeout 600 /usr/bin/python3 -B -m pytest -q --tb=short --assert=plain -p no:cacheprovider "$@"; }
# A check that hangs is ended, however busy the machine is.
run_check() { # NUMBER
  local -x TAMIS_MUTANT=$1
  case ${check[0]} in
  redis/*) pytest "${check[@]}" --module "build/$build/redis/tamis-redis.so" ${test:+-k "$test"} ;;
  nginx/*) pytest "${check[@]}" --module "build/$build/nginx/ngx_http_tamis_module.so" \
    --tool "build/$build/tools/tamis" ${test:+-k "$test"} ;;
  examples/*) timeout 600 /usr/bin/python3 -B "${check[@]}" --programs "build/$build/$(dirname "${check[0]}")" ;;
  python/tests/fuzz.py)
    PYTHONPATH=$PWD/build/$build/python LD_PRELOAD=$(cc -print-file-name=libasan.so) PYTHONMALLOC=malloc \
      ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 timeout 600 /usr/bin/python3 -B "${check[@]}"
    ;;
  python/tests/servers/*) PYTHONPATH=$PWD/build/$build/python timeout 600 /usr/bin/python3 -B "${check[@]}" ;;
  python/*) PYTHONPATH=$PWD/build/$build/python pytest "${check[0]}" ${test:+-k "$test"} ;;
  js/*)
    "build/$build/tests/test_hostile" --mutations 30 --record hostile tests/fuzz/corpus >/dev/null &&
      TAMIS_HOSTILE=$PWD/hostile TAMIS_COMMAND=$PWD/build/$build/tools/tamis \
        timeout 600 node --test ${test:+--test-name-pattern="$test"} "build/$build/js/tree/${check[0]}"
    ;;
  site/*)
    TAMIS_PACKAGE=file://$PWD/build/$build/js/tree/js/src/node-wasm.js \
      timeout 600 node --test ${test:+--test-name-pattern="$test"} "${check[0]}"
    ;;
  tests/tool/*) timeout 600 "${check[0]}" "build/$build/tools/tamis" "${check[@]:1}" ;;
  tests/compat/*) timeout 600 /usr/bin/python3 -B "${check[0]}" "$(program test_hostile)" "${check[@]:1}" ;;
  *) timeout 600 "$(program "${check[0]}")" "${check[@]:1}" ;;
  esac
}

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
  run_check "$number" >"$output" 2>&1
  status=$?
done
if [ $status -eq 0 ]; then
  tail -n 20 "$output"
  echo "NOT CAUGHT: $name by ${check[*]} in $tries tries"
  exit 1
fi
if ! grep -aEq -- "$says" "$output"; then
  tail -n 20 "$output"
  echo "NOT CAUGHT: $name: ${check[*]} failed (status $status) without saying '$says'"
  exit 1
fi
# Without a mutant the merged build passes.  That is tried once for each check, but not where few are built: it
# takes as long as a whole search.
if [ -n "$number" ] && [ -z "${TAMIS_MUTANTS:-}" ]; then
  passed=build/$build/passed/$(printf '%s' "${check[*]} $test" | sha1sum | cut -c1-16)
  if [ ! "$passed" -nt "$(program "${check[0]}" | grep . || echo merged.stamp)" ]; then
    run_check 0 >"$output.0" 2>&1 ||
      { tail -n 20 "$output.0"; echo "$name: ${check[*]} fails without it"; exit 1; }
    mkdir -p "${passed%/*}" && touch "$passed"
  fi
fi
echo "caught: $name by ${check[*]}, try $tries: $(grep -aEm1 -- "$says" "$output" | cut -c -300)"
