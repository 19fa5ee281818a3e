# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: MIT
#
# What the tests of the program are written with; sourced by test_tool.sh, which sets $tamis.

number=0
failures=0

# check NAME COMMAND...: the test passes if the command succeeds.
check() {
  local name=$1
  shift
  number=$((number + 1))
  if "$@"; then
    echo "ok $number - $name"
  else
    echo "not ok $number - $name"
    failures=$((failures + 1))
  fi
}

skip() {
  number=$((number + 1))
  echo "ok $number - $1 # SKIP $2"
}

# run ARGUMENTS...: tamis, with its output in out, its messages in err and its status in $status.
run() {
  "$tamis" "$@" >out 2>err
  status=$?
}

# same_as EXPECTED: the last run succeeded in silence and wrote exactly that.
same_as() {
  [ "$status" -eq 0 ] && [ ! -s err ] && cmp -s out "$1" && return
  echo "# status $status, messages: $(head -c 300 err)"
  cmp out "$1" | sed 's/^/# /'
  return 1
}

# within EXPECTED LESS MORE: as same_as, with up to LESS of its lines missing, and up to MORE others.
within() {
  local less more
  less=$(diff -a out "$1" | grep -ac '^>')
  more=$(diff -a out "$1" | grep -ac '^<')
  [ "$status" -eq 0 ] && [ ! -s err ] && [ "$less" -le "$2" ] && [ "$more" -le "$3" ] && return
  echo "# status $status, $less lines missing, $more too many, messages: $(head -c 300 err)"
  return 1
}

# one_line STATUS TEXT: the last run ended so, with exactly one line, "tamis: ...TEXT...".
one_line() {
  [ "$status" -eq "$1" ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^tamis: ' err &&
    grep -qF -- "$2" err && return
  echo "# status $status, expected $1 and one line with \"$2\"; messages:"
  sed 's/^/#   /' err
  return 1
}

silent_output() { [ ! -s out ]; }
