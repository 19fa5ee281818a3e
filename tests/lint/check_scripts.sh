#!/bin/bash
# SPDX-License-Identifier: MIT
# What script/ does on a machine that has little: which packages it asks for, what it tells users who are not
# root, and what it shows while it builds.
#
#   check_scripts.sh SOURCE_DIR
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }

# ---- script/packages, by a user who is not root, on a Debian without packages ----

mkdir "$work/bin"
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/dpkg-query"
chmod +x "$work"/bin/*
told() { ! PATH=$work/bin:$PATH "$source/script/packages" "$@" 2>&1 || fail "packages that are missing are there: $*"; }
told one two | grep -qx '  apt-get update && apt-get install --no-install-recommends one two' ||
  fail "the command for packages of the release: $(told one two)"
# apt-get does not find a package of the backports, but script/packages does.
told one two/backports | grep -qx "  $(cd "$source" && pwd)/script/packages one two/backports" ||
  fail "the command for a package of the backports: $(told one two/backports)"

# ---- --help ----

# Whoever asks what a script does has not decided yet whether its packages are wanted.
mkdir -p "$work/copy"
cp -R "$source/script" "$work/copy"
printf '#!/bin/sh\necho asked >>%s/asked\nexit 1\n' "$work" >"$work/copy/script/packages"
for script in "$work"/copy/script/*; do
  name=$(basename "$script")
  { [ "$name" != packages ] && [ -f "$script" ] && grep -q "^ *script/packages " "$script"; } || continue
  "$script" --help >"$work/out" 2>&1 || fail "script/$name --help fails: $(cat "$work/out")"
  grep -q "script/$name" "$work/out" || fail "script/$name --help does not say how to call it"
  ! "$script" --nonsense >"$work/out" 2>&1 || fail "script/$name takes --nonsense"
  [ ! -e "$work/asked" ] || fail "script/$name --help wants packages"
done

# What a script installs is what it needs: the site no browser, and Debian's packages no server of a demo.
asks() { # SCRIPT: the packages, in one line; then the script ends
  printf '#!/bin/sh\necho "$*" >%s/asked\nexit 1\n' "$work" >"$work/copy/script/packages"
  mkdir -p "$work/copy/js" "$work/copy/nginx" "$work/copy/build"
  cp "$source/js/packages" "$work/copy/js" && cp "$source/nginx/packages" "$work/copy/nginx"
  ! "$work/copy/script/$1" >"$work/out" 2>&1 || fail "script/$1 goes on without packages"
  cat "$work/asked"
}
[[ " $(asks site) " = *' binaryen '* && " $(asks site) " != *' chromium '* ]] || fail "script/site installs $(asks site)"
[[ " $(asks deb) " = *' nginx-dev '* && " $(asks deb) " != *' gunicorn '* ]] || fail "script/deb installs $(asks deb)"

# ---- script/test: what runs in the background is killed, and the wait for it ends ----

mkdir "$work/logs"
cat >"$work/awaited" <<'END'
set -um
logs=$2 passed=0 failed=() again=()
eval "$(sed -n '/^count() {/,/^}/p; /^timed() {/,/^}/p; /^took() {/p; /^in_background() {/,/^}/p; /^later/p; /^awaited() {/,/^}/p' "$1")"
later first true
later hangs sleep 600
later never true
in_background &
background=$!
while ! pgrep -g $background -x sleep >/dev/null; do sleep 0.1; done
kill -KILL -- -$background
for name in first hangs never; do awaited $name >/dev/null; done
echo "${failed[*]}, $passed passed"
END
[ "$(timeout -s KILL 120 bash "$work/awaited" "$source/script/test" "$work/logs" 2>/dev/null)" = "hangs never, 1 passed" ] ||
  fail "script/test waits for what was killed, or does not count it"

# ---- script/test: what repeats a failure is a command ----

cat >"$work/failures" <<'END'
set -u
logs=$2 passed=0 failed=() again=() repeat='script/test --all 2/6' longer=TAMIS_LONG=1 start=0
eval "$(sed -n '/^count() {/,/^}/p; /^summary() {/,/^}/p' "$1")"
printf 'again: %s\n' tsan/unit.b asan/unit.a >"$logs/tests"
echo 'again: script/mutants a b' >"$logs/mutants"
echo 'error' >"$logs/build"
for name in tests mutants build; do count 1 "a $name: c" "$logs/$name"; done
summary | sed '1,/ passed, /d'
repeat='' longer='' failed=() again=()
count 1 'install: tests' "$logs/build"
summary | sed '1,/ passed, /d'
END
expected="again: script/mutants a b
again: script/test --all 2/6
again: TAMIS_LONG=1 script/test asan/unit.a tsan/unit.b
again: script/test install"
[ "$(bash "$work/failures" "$source/script/test" "$work/logs")" = "$expected" ] || fail "script/test repeats a failure otherwise"
for name in script/mutants nothing asan asan/nothing some/unit.saved; do
  status=0
  "$source/script/test" "$name" 2>/dev/null || status=$?
  [ $status -eq 2 ] || fail "script/test takes $name for a test"
done

# ---- script/lint: each linter finds a mutant, and only that ----

mutants=$work/mutants
mkdir "$mutants"
printf 'int  a;\n' >"$mutants/a.c"
printf '#!/bin/sh\nrm $1\n' >"$mutants/shell"
printf '#!/usr/bin/env python3\nimport os\nl = None == 1\n' >"$mutants/python"
printf 'const a = 1;\n' >"$mutants/a.js"
printf 'int a;\n' >"$mutants/good.c"
status=0
"$source/script/lint" "$mutants"/* >"$work/out" 2>&1 || status=$?
for found in a.c:1:4: SC2086 "'os' imported but unused" E711 noUnusedVariables; do
  [ $status -eq 1 ] && grep -qF -e "$found" "$work/out" || fail "script/lint does not find $found: $(cat "$work/out")"
done
"$source/script/lint" "$mutants/good.c" || fail "script/lint finds something where nothing is"
status=0
ln -s "$(command -v realpath)" "$(command -v dirname)" "$work/bin"
PATH=$work/bin "$BASH" "$source/script/lint" "$mutants/good.c" >"$work/out" 2>&1 || status=$?
[ $status -eq 2 ] && grep -q 'needs these packages: clang-format shellcheck pyflakes3 pycodestyle' "$work/out" || fail "script/lint goes on without linters"

# ---- the jobs of a pull request are the steps of the gate ----

steps=$(sed -n 's/^steps=(\(.*\))$/\1/p' "$source/script/test")
[ "$steps" ] && grep -qxF "        step: [${steps// /, }]" "$source/.github/workflows/gate.yml" ||
  fail "gate.yml has other jobs than script/test has steps: $steps"
! "$source/script/test" --all 3/7 2>/dev/null || fail "script/test takes a seventh part"

# ---- script/quiet ----

cat >"$work/build" <<'END'
#!/bin/sh
echo first step
echo "second step" >&2
exit "$1"
END
chmod +x "$work/build"
quiet() { "$source/script/quiet" "$work/build" "$@" 2>&1; }
[ -z "$(quiet 0)" ] || fail "quiet prints what a command prints that succeeds"
status=0
quiet 3 >"$work/out" || status=$?
[ $status -eq 3 ] || fail "quiet returns $status, not the command's status"
grep -qx 'first step' "$work/out" && grep -qx 'second step' "$work/out" ||
  fail "quiet does not print what a command has printed that fails"
script -qec "'$source/script/quiet' '$work/build' 0" /dev/null >"$work/out" </dev/null
# Each line begins at the left, and the last one is removed.
printf '\rfirst step\033[K\rsecond step\033[K\r\033[K' | cmp - "$work/out" ||
  fail "a terminal does not get the last line, renewed"
status=0
script -qec "'$source/script/quiet' '$work/build' 3" /dev/null >"$work/out" </dev/null || status=$?
[ $status -eq 3 ] && grep -q $'first step\r$' "$work/out" || fail "on a terminal, a failure is not shown"

# ---- packages that are named in several places ----

names() { grep -v '^#' "$source/script/build-packages"; }
line=$(grep -o 'apt-get install [^`]*' "$source/README.md" | head -n 1)
for package in $(names) python3; do
  [[ " $line " = *" $package "* ]] || fail "README.md does not name $package, which a build with manual pages needs"
done
deb=$(names | tr '\n' ' ')$(grep -v '^#' "$source/nginx/packages" | tr '\n' ' ')$(sed -n 's/^script\/packages .*}" //p' "$source/script/deb")
needed=$(awk '/^Build-Depends:/ { on = 1; sub(/^[^ ]*/, ""); print; next } /^[^ ]/ { on = 0 } on' \
  "$source/packaging/debian/control" | sed 's/([^)]*)//g; s/:any//g; s/,/ /g')
[[ $needed = *cmake*python3* ]] || fail "what Debian's tools need was not found: $needed"
for package in build-essential ${needed//debhelper-compat/debhelper}; do
  [[ " $deb " = *" $package "* ]] || fail "script/deb does not install $package"
done

# ---- the version, where it is written down beside the header ----

version=$(sed -En 's/^#define TAMIS_VERSION_(MAJOR|MINOR|PATCH) //p' "$source/include/tamis/tamis.h" | paste -sd .)
case $version in 0.*) so=${version%.*} ;; *) so=${version%%.*} ;; esac
other_than() { ! grep -vF "$1" || fail "the version of the header is $version"; } # what is on standard input
(cd "$source" && {
  grep -rnoE 'find_package\(tamis [0-9.]+' README.md docs examples tests | other_than "tamis ${version%.*}"
  grep -rnoP '(libtamis\.so\.|libtamis(?=[0-9])|What holds in version )[0-9.]*[0-9](?!\.?[A-Z0-9])' README.md docs examples | other_than "$so"
  grep -nE '^(  |      )"version":' js/package.json js/package-lock.json | grep -E 'package.json:|package-lock.json:[39]:' | other_than "\"$version\""
})

# ---- Python leaves no compiled files in the tree ----

! grep -rn 'COMMAND ${PYTHON_WITH_' "$source/tests" --include=CMakeLists.txt | grep -v ' -B' || fail "a test in Python without -B"
echo "good"
