#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests the commands on saved filters (build, query, info, merge): test_saved.sh PATH-TO-TAMIS
# shellcheck disable=SC2002  # pipes are tested
set -u
export LC_ALL=C

tamis=$(realpath "${1:?usage: test_saved.sh PATH-TO-TAMIS}")
saved=$(realpath "$(dirname "$(realpath "$0")")/../compat/saved")
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$(realpath "$0")")/tap.sh"

no_rest() { [ -z "$(find . -name '*.tamis-*')" ]; }
mode_is() { [ "$(stat -c %a "$1")" = "$2" ]; }
row() { sed -n "s/^$1  *\([^ ]*\).*/\1/p" "${2:-out}"; }
# good: the last run succeeded without a message.
good() {
  [ "$status" -eq 0 ] && [ ! -s err ] && return
  echo "# status $status, messages: $(head -c 300 err)"
  return 1
}

# ---- build, and query ----

{ tail -n 100000 numbers; cat paths; printf 'one\n\ntwo\377\n\0\nunended'; } >b
grep -aFxf paths.sorted b >expected.in
grep -avFxf paths.sorted b >expected.out

run build $exact paths -o list.tamis
check "build" good
check "... writes nothing else" silent_output
check "... with nothing beside it" no_rest
check "... for its owner alone" mode_is list.tamis 600
run query list.tamis b
check "query writes what grep -Fxf writes, in its order" same_as expected.in
run query -v list.tamis b
check "query -v writes what grep -vFxf writes" same_as expected.out
cat b | "$tamis" query list.tamis >out 2>err
status=$?
check "query: standard input" same_as expected.in
run query --invert-match list.tamis paths - <numbers
check "query: several files, one of them standard input" same_as numbers
run query --threads 4 --check list.tamis b
sort -o out out
sort expected.in >expected.sorted
check "query: several threads, and a check before" same_as expected.sorted
run query -o result list.tamis b
check "query -o: nothing on standard output" silent_output
cp result out
check "query -o" same_as expected.in
rm -f answered
(head -n 1 paths; for _ in $(seq 600); do [ -e answered ] && break; sleep 0.05; done; : >later) |
  "$tamis" query list.tamis | { read -r _ && [ ! -e later ]; echo $? >streams; : >answered; }
check "query answers as lines come" test "$(cat streams)" = 0
cat list.tamis | "$tamis" query - b >out 2>err
status=$?
check "query: the list from a pipe" same_as expected.in
run query <(cat list.tamis) b
check "query: the list from a named pipe" same_as expected.in

cp list.tamis shrinking.tamis
mkfifo feed
in_background 'exec 3>feed; head -n 1 paths >&3; sleep 0.5; : >shrinking.tamis; cat numbers >&3'
run query shrinking.tamis feed
check "query: the file in use becomes shorter" one_line 2 "a file in use was made shorter"
run query list.tamis numbers
check "query: status 1 if nothing was written" ends_by 1
run query -v list.tamis paths
check "query -v: status 1 if nothing was written" ends_by 1
run query list.tamis nowhere
check "query: status 2 after an error" one_line 2 "cannot open 'nowhere'"
"$tamis" query list.tamis paths >/dev/full 2>err
status=$?
check "query: a full disk" one_line 2 "No space left on device"
{ env --default-signal=PIPE "$tamis" query list.tamis paths paths paths 2>err; echo $? >status; } |
  head -n 1 >out
status=$(cat status)
check "query: a closed pipe ends it in silence" ends_by 141

cat paths | "$tamis" build --fpp 5e-8 -o piped.tamis >out 2>err
status=$?
check "build: a pipe" good
run info piped.tamis
check "... makes a filter that grows" test "$(row kind)" = cuckoo
run query piped.tamis b
check "... which is found" within expected.in 0 2
cat paths | "$tamis" build $exact --kind bloom --capacity 200k -o piped.tamis >out 2>err
status=$?
run query piped.tamis b
check "build: a pipe, of known capacity" same_as expected.in
for form in "--layout classic" "--layout blocked" "--layout word --fpp 0.001" "--kind cuckoo" "--fixed" \
  "--memory 1M" "--kind cuckoo --memory 1M" "--threads 4 --stats"; do
  # shellcheck disable=SC2086
  run build $form --seed 1 paths -o form.tamis
  check "build $form" test "$status" -eq 0
  run query form.tamis paths
  check "... has all" cmp -s out paths
  run query -v form.tamis numbers
  wrong=$((300000 - $(wc -l <out)))
  case $form in *0.001) most=400 ;; *) most=4 ;; esac
  check "... and nothing else: $wrong wrong lines" test $wrong -le $most
done
run build --seed 0x123456789abcdef --capacity 200k --layout word --fpp 0.01 paths -o seeded.tamis
run info --show-seed seeded.tamis
check "build --seed" test "$(row seed)" = 0x0123456789abcdef
check "build --layout" grep -q '^kind *bloom, word$' out
cp seeded.tamis again.tamis
run build --seed 81985529216486895 --capacity 200k --layout word --fpp 0.01 paths -o again.tamis
check "build: the same seed makes the same file" cmp -s seeded.tamis again.tamis

# The sample shows half of the lines again and again, so the estimate is too low.
gawk 'BEGIN { for (i = 0; i < 400000; i++) print "r" i % 1000 "\n" i }' >misleading
run build misleading -o list2.tamis
check "build: files that hold more lines than estimated are read again" good
run info list2.tamis
check "... and the filter is large enough" test "$(row capacity)" -ge 400000 -a "$(row capacity)" -le 450000
"$tamis" build -o list2.tamis <misleading >out 2>err
status=$?
run info list2.tamis
check "... standard input, too" test "$(row capacity)" -ge 400000
run build --capacity 10k paths -o small.tamis
check "build: more lines than --capacity" good
run info small.tamis
check "... the rate stays" gawk '/^fpp now/ { exit !($3 <= 1e-6) }' out
check "... bits per key are those of all layers" \
  gawk '/^bits per key/ { bits = $7 } /^layers/ { layers = $2 } END { exit !(bits > 30 && bits < 90 && layers > 3) }' out
run query small.tamis paths
check "... and all are in" cmp -s out paths
run build --quiet --capacity 100 --memory 4K --kind cuckoo paths -o none.tamis
check "build: more lines than memory holds" one_line 1 "more distinct lines than fit"
check "... leaves nothing" test ! -e none.tamis
: >empty
run build empty -o empty.tamis
check "build: nothing" good
run query empty.tamis b
check "... is in nothing" ends_by 1

# ---- the file is replaced at the end ----

chmod 640 list.tamis
cp list.tamis before.tamis
mkfifo slow
start_slow() {
  : >err
  in_background 'exec 3>slow; seq 1000 >&3; exec sleep 60'
  env --default-signal "$tamis" build --threads 2 -o list.tamis slow >out 2>err &
  pid=$!
  for _ in $(seq 600); do
    no_rest || return 0
    sleep 0.05
  done
}
for signal in INT TERM; do
  start_slow
  kill -s $signal "$pid"
  wait "$pid" 2>/dev/null
  status=$?
  { kill -KILL -- "-${background[-1]}"; wait "${background[-1]}"; } 2>/dev/null
  check "SIG$signal ends build" ends_by $((128 + $(kill -l $signal)))
  check "... the old list stands, with nothing beside it" cmp -s list.tamis before.tamis
  check "... with nothing beside it" no_rest
done
run build -o list.tamis paths /proc/self/mem
check "an error in the input" one_line 1 "cannot read '/proc/self/mem'"
check "... the old list stands" cmp -s list.tamis before.tamis
(ulimit -f 100; exec "$tamis" build $exact -o list.tamis paths) >out 2>err
status=$?
check "no room for the list" one_line 1 "cannot write 'list.tamis': File too large"
check "... the old list stands" cmp -s list.tamis before.tamis
check "... with nothing beside it" no_rest
run build -o list.tamis numbers
check "a list is replaced" test "$status" -eq 0
check "... and keeps its mode" mode_is list.tamis 640
run build -o paths paths
check "output to an input is refused" one_line 1 "input and output at once"
"$tamis" build $exact -o /dev/stdout paths | "$tamis" query - b >out 2>err
status=$?
check "build to a pipe" same_as expected.in
cp before.tamis list.tamis
chmod 600 list.tamis

# ---- info ----

run info list.tamis
check "info" good
check "info: kind" grep -q '^kind *bloom, blocked$' out
check "info: lines" gawk -v n="$(wc -l <paths.sorted)" \
  '/^lines/ { found = $2 > 0.99 * n && $2 < 1.01 * n } END { exit !found }' out
check "info: the seed is a secret" test -z "$(row seed)"
run build --kind counting -o counting.tamis numbers
check "a list of counters" test "$status" -eq 0
run info counting.tamis
check "info: counters" test "$(row kind) $(row counters)" = "counting 10"
run query counting.tamis numbers
check "query: counters" same_as numbers
run info --json list.tamis
check "info --json: one line" test "$(wc -l <out)" -eq 1
check "info --json: the seed is a secret" test -z "$(grep seed out)"
cp list.tamis "$(printf 'a"\\\n\377\303\244.tamis')"
if command -v python3 >/dev/null; then
  run info --json --show-seed --check list.tamis piped.tamis "$(printf 'a"\\\n\377\303\244.tamis')"
  python3 - out >err 2>&1 <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
assert [r["kind"] for r in rows] == ["bloom"] * 3
assert rows[0]["layout"] == "blocked" and rows[0]["checked"] is True
assert int(rows[0]["seed"], 16) > 0 and rows[0]["seed"] == rows[2]["seed"] != rows[1]["seed"]
assert 0 < rows[0]["fpp_estimate"] <= rows[0]["fpp"] * 1.01 == 1e-11 * 1.01
assert rows[2]["file"] == 'a"\\\n\ufffd\u00e4.tamis'
PY
  status=$?
  check "info --json is JSON" good
else
  skip "info --json is JSON" "python3 not found"
fi
cat list.tamis | "$tamis" info - >out 2>err
status=$?
check "info: standard input" good
cat list.tamis | "$tamis" info --check - >out 2>err
status=$?
check "info --check: standard input" good
run info list.tamis list2.tamis
check "info: several files are named" test "$(grep -c '^file ' out)" -eq 2

# ---- the report of a bug ----

mkdir of-a-client
cp seeded.tamis of-a-client/secret.tamis
head -c 3000 list.tamis >cut.tamis
run info --report of-a-client/secret.tamis list.tamis "$saved"/../vectors/window.tamis cut.tamis paths . nowhere
check "info --report" good
check "info --report: a block of code" test "$(grep -n '^```$' out | cut -d: -f1 | xargs)" = "1 $(wc -l <out)"
check "info --report: the program" grep -q "^$("$tamis" --version | sed -n 3p)" out
check "info --report: the machine" test "$(grep -cE "^(system +$(uname -sr), |processors +$(getconf _NPROCESSORS_ONLN) |pages +$(getconf PAGESIZE) |membarrier +(yes|no)$|rseq +[a-z])" out)" -eq 5
check "info --report: the state of each file" test "$(sed -n 's/^state  *//p' out | xargs -d '\n' printf '%s;')" = \
  "whole, all sums are right;whole, all sums are right;whole, all sums are right;$("$tamis" info --check cut.tamis 2>&1 >/dev/null | sed "s/.*'.*' is damaged, or not complete/not a saved filter, or damaged/");not a saved filter, or damaged;Is a directory;No such file or directory;"
check "info --report: the format" grep -qx 'format  *version 1, features 0x2' out
check "info --report: the figures" test "$(grep -c '^kind ' out)" -ge 3
seed=$("$tamis" info --show-seed seeded.tamis | row seed /dev/stdin)
check "info --report: neither seeds nor names" \
  test -n "$seed" -a -z "$(grep -iE "seed|${seed#0x}|secret|client|tamis\.|$(uname -n)" out)"
mkfifo waiting
timeout 60 "$tamis" info --report waiting >out 2>err
check "info --report does not wait" grep -qx 'state  *not a regular file' out
run info --report
check "info --report without files" test "$status" -eq 0 -a "$(wc -l <out)" -ge 9
rm -f waiting cut.tamis

# ---- merge ----

head -n 100000 paths >half.a
tail -n +50001 paths >half.b
for form in "" "--kind cuckoo" "--layout word --fpp 0.001"; do
  # shellcheck disable=SC2086
  run build --capacity 200k --seed 1 $form half.a -o a.tamis
  run build --like a.tamis half.b -o b.tamis
  check "build --like${form:+ $form}" good
  run merge a.tamis b.tamis -o both.tamis
  check "merge${form:+ $form}" good
  run query both.tamis paths
  check "... has all of both" cmp -s out paths
  run query -v both.tamis numbers
  wrong=$((300000 - $(wc -l <out)))
  case $form in *0.001) most=400 ;; *) most=4 ;; esac
  check "... and nothing else: $wrong wrong lines" test $wrong -le $most
  run merge a.tamis b.tamis b.tamis -o a.tamis
  check "merge: three files, into the first" good
  run query a.tamis paths
  check "... has all" cmp -s out paths
done
printf 'one\ntwo\n' >few
# (Some that grow are of versions that planned another size: without layers, or with larger segments.)
for list in "$saved"/1/*.tamis; do
  case ${list##*/} in
  bloom-classic-growable.tamis | cuckoo-generations.tamis | cuckoo-grown*.tamis) continue ;;
  esac
  if [[ $list = */window-* ]]; then
    run build --like "$list" few -o b.tamis
    check "build --like ${list##*/}: its lines would be forgotten" one_line 2 "has a window"
    kind=bloom
    [[ $list != *cuckoo* ]] || kind=cuckoo
    run build --kind $kind few -o b.tamis
    run merge "$list" b.tamis -o both.tamis
    check "merge ${list##*/} with one that keeps its lines" one_line 2 "the window differs"
    run merge "$list" "$list" -o both.tamis
    if [[ $list = *grown* ]]; then
      check "merge ${list##*/}: windows of several layers have no union" one_line 1 "cannot unite"
    else
      check "merge ${list##*/} with itself" good
    fi
    continue
  fi
  run build --like "$list" few -o b.tamis
  check "build --like ${list##*/}" good
  run merge "$list" b.tamis -o both.tamis
  check "... and it fits" test "$(grep -c 'does not fit' err)" -eq 0
done
run build --fixed --capacity 1k half.a -o b.tamis
check "build --fixed: more lines than it has room for" one_line 1 "more distinct lines than fit"
run build --like "$saved/1/cuckoo-fixed.tamis" half.a -o b.tamis
check "... and so --like a filter that does not grow" one_line 1 "more distinct lines than fit"
run build --capacity 50k half.a -o a.tamis
run build --like a.tamis half.b -o b.tamis
run merge a.tamis b.tamis -o both.tamis
check "merge: more lines than planned for are told" \
  grep -q '^tamis: the union holds .* so the rate rose' err
run build --capacity 50k half.a -o b.tamis
cp both.tamis before.tamis
run merge a.tamis b.tamis -o both.tamis
check "merge: another seed" one_line 2 "'b.tamis' does not fit 'a.tamis', from which the seed differs"
run build --capacity 51k half.a -o b.tamis
run merge a.tamis b.tamis -o both.tamis
check "merge: another capacity" one_line 2 "the capacity differs"
run build --kind cuckoo --capacity 50k half.a -o b.tamis
run merge a.tamis b.tamis -o both.tamis
check "merge: another kind" one_line 2 "the kind differs"
check "... the old file stands" cmp -s both.tamis before.tamis

# ---- files that are no saved filters, or damaged ones ----

# refused FILE TEXT: each command names the file, ends with status 2, and changes nothing.
refused() {
  cp before.tamis result
  run query --check "$1" paths
  { one_line 2 "'$1' $2" && silent_output; } || return
  run info --check "$1"
  { one_line 2 "'$1' $2" && silent_output; } || return
  run merge before.tamis "$1" -o result
  one_line 2 "'$1' $2" || return
  run merge "$1" before.tamis -o result
  one_line 2 "'$1' $2" || return
  cp "$1" untouched
  run dedup --state "$1" numbers
  { one_line 2 "'$1' $2" && silent_output && cmp -s "$1" untouched; } || return
  [ ! -e "$1.lock" ] && no_rest && cmp -s result before.tamis
}
check "a text file" refused paths "is not a saved filter"
check "an empty file" refused empty "is not a saved filter"
size=$(stat -c %s before.tamis)
head -c 100 before.tamis >damaged
check "cut off in the header" refused damaged "is not a saved filter, or is damaged"
for cut in 600 5000 $((size - 1)); do
  head -c "$cut" before.tamis >damaged
  check "cut off after $cut bytes" refused damaged "is damaged, or not complete"
done
{ cat before.tamis; echo; } >damaged
check "a byte too many" refused damaged "is damaged, or not complete"
for at in 9 700 5000 $((size / 2)) $((size - 5)); do
  cp before.tamis damaged
  printf '%b' "\\$(printf %o $(($(od -An -tu1 -j "$at" -N 1 before.tamis) ^ 16)))" |
    dd of=damaged bs=1 seek="$at" conv=notrunc 2>dd.err
  check "a changed bit in byte $at" refused damaged "is"
done
run build --like paths numbers -o result
check "build --like a text file" one_line 2 "'paths' is not a saved filter"
run query nowhere.tamis paths
check "a list that does not exist" one_line 2 "cannot read 'nowhere.tamis': No such file or directory"
run info .
check "a folder" one_line 2 "cannot read '.': Is a directory"

# ---- the command line ----

usage() {
  local text=$1
  shift
  run "$@"
  check "usage: tamis $*" one_line 2 "$text"
}
usage "build needs -o FILE" build paths
usage "--like decides" build --like before.tamis --fpp 0.1 paths -o result
usage "for Bloom filters" build --kind cuckoo --layout word paths -o result
usage "for cuckoo filters" build --kind bloom --fixed paths -o result
usage "--memory decides" build --memory 1M --layout word paths -o result
usage "--layout: 'round' is neither" build --layout round paths -o result
for bad in 0 -1 x 0x 1.5 18446744073709551616 ''; do
  usage "--seed: '$bad'" build --seed "$bad" paths -o result
done
usage "query takes a saved filter" query
usage "LIST is standard input" query -
usage "only one of LIST and FILE" query - paths -
usage "info takes saved filters" info
usage "--report goes with no other option" info --report --show-seed list.tamis
usage "--report takes files" info --report -
usage "two saved filters at least" merge list.tamis -o result
usage "merge needs -o FILE" merge list.tamis list2.tamis
usage "only one LIST" merge - - -o result
for words in "build --help" "query --help" "info --help" "merge --help"; do
  # shellcheck disable=SC2086
  run $words
  check "tamis $words" test "$status" -eq 0 -a -s out -a ! -s err
done

echo "1..${number:?}"
[ "${failures:?}" -eq 0 ]
