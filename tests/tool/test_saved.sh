#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests the commands on saved filters (build, query, info, merge): test_saved.sh PATH-TO-TAMIS
# shellcheck disable=SC2002  # pipes are tested
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"
saved=$here/../compat/saved

good() { ends_by 0; }

# ---- build, and query ----

{ tail -n 100000 numbers; cat paths; printf 'one\n\ntwo\377\n\0\nunended'; } >b
grep -aFxf paths.sorted b >expected.in
grep -avFxf paths.sorted b >expected.out

try "build" good : build $exact paths -o list.tamis
check "... writes nothing else" silent_output
check "... with nothing beside it" no_rest
check "... for its owner alone" mode_is list.tamis 600
try "query writes what grep -Fxf writes, in its order" same_as expected.in : query list.tamis b
try "query -v writes what grep -vFxf writes" same_as expected.out : query -v list.tamis b
try "query: standard input" same_as expected.in : query list.tamis < <(cat b)
run query --invert-match list.tamis paths - <numbers
check "query: several files, one of them standard input" same_as numbers
sort expected.in >expected.sorted
by=sorted try "query: several threads, and a check before" same_as expected.sorted : query --threads 4 --check list.tamis b
try "query -o: nothing on standard output" silent_output : query -o result list.tamis b
cp result out
check "query -o" same_as expected.in
rm -f answered
(head -n 1 paths; for _ in $(seq 600); do [ -e answered ] && break; sleep 0.05; done; : >later) |
  "$tamis" query list.tamis | { read -r _ && [ ! -e later ]; echo $? >streams; : >answered; }
check "query answers as lines come" test "$(cat streams)" = 0
try "query: the list from a pipe" same_as expected.in : query - b < <(cat list.tamis)
try "query: the list from a named pipe" same_as expected.in : query <(cat list.tamis) b

cp list.tamis shrinking.tamis
mkfifo feed
in_background 'exec 3>feed; head -n 1 paths >&3; sleep 0.5; : >shrinking.tamis; cat numbers >&3'
try "query: the file in use becomes shorter" one_line 2 "a file in use was made shorter" : query shrinking.tamis feed
try "query: status 1 if nothing was written" ends_by 1 : query list.tamis numbers
try "query -v: status 1 if nothing was written" ends_by 1 : query -v list.tamis paths
try "query: status 2 after an error" one_line 2 "cannot open 'nowhere'" : query list.tamis nowhere
by=to_full try "query: a full disk" one_line 2 "No space left on device" : query list.tamis paths
to_head default query list.tamis paths paths paths
check "query: a closed pipe ends it in silence" ends_by 141

try "build: a pipe" good : build --fpp 5e-8 -o piped.tamis < <(cat paths)
run info piped.tamis
check "... makes a filter that grows" test "$(row kind)" = cuckoo
try "... which is found" within expected.in 0 2 : query piped.tamis b
run build $exact --kind bloom --capacity 200k -o piped.tamis < <(cat paths)
try "build: a pipe, of known capacity" same_as expected.in : query piped.tamis b
# has_nothing_else LIST: of the form "$form", few false positives.
has_nothing_else() {
  local wrong most=4
  run query -v "$1" numbers
  wrong=$((300000 - $(wc -l <out)))
  case $form in *0.001) most=400 ;; esac
  check "... and nothing else: $wrong wrong lines" test $wrong -le $most
}

for form in "--layout classic" "--layout blocked" "--layout word --fpp 0.001" "--kind cuckoo" "--fixed" \
  "--memory 1M" "--kind cuckoo --memory 1M" "--threads 4 --stats"; do
  # shellcheck disable=SC2086
  run build $form --seed 1 paths -o form.tamis
  check "build $form" test "$status" -eq 0
  try "... has all" cmp -s out paths : query form.tamis paths
  has_nothing_else form.tamis
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
try "build: files that hold more lines than estimated are read again" good : build misleading -o list2.tamis
run info list2.tamis
check "... and the filter is large enough" test "$(row capacity)" -ge 400000 -a "$(row capacity)" -le 450000
run build -o list2.tamis <misleading
run info list2.tamis
check "... standard input, too" test "$(row capacity)" -ge 400000
try "build: more lines than --capacity" good : build --capacity 10k paths -o small.tamis
try "... the rate stays" gawk '/^fpp now/ { exit !($3 <= 1e-6) }' out : info small.tamis
check "... bits per key are those of all layers" \
  gawk '/^bits per key/ { bits = $7 } /^layers/ { layers = $2 } END { exit !(bits > 30 && bits < 90 && layers > 3) }' out
try "... and all are in" cmp -s out paths : query small.tamis paths
run build --quiet --capacity 100 --memory 4K --kind cuckoo paths -o none.tamis
check "build: more lines than memory holds" one_line 1 "more distinct lines than fit"
check "... leaves nothing" test ! -e none.tamis
: >empty
try "build: nothing" good : build empty -o empty.tamis
try "... is in nothing" ends_by 1 : query empty.tamis b

# ---- the file is replaced at the end ----

chmod 640 list.tamis
cp list.tamis before.tamis
run build -o list.tamis numbers
check "a list is replaced" test "$status" -eq 0
check "... and keeps its mode" mode_is list.tamis 640
run build -o list.tamis --mode 604 --group "$(id -gn)" numbers
check "--mode gives the new list another mode" mode_is list.tamis 604
if strace_runs; then
  strace -f -o log -e trace=fchmod "$tamis" build -o list.tamis --mode 600 numbers
  check "... and no other one for a moment" test "$(grep -o 'fchmod([0-9]*, [0-7]*)' log | grep -cv ', 0600)')" = 0
fi
: >appended
chmod 644 appended
"$tamis" build -o /dev/stdout --mode 604 numbers >>appended
check "a file that is there keeps its mode" mode_is appended 644
chmod 640 list.tamis
try "... also of a union" mode_is list.tamis 660 : merge -o list.tamis list.tamis list.tamis --mode 0660
try "output to an input is refused" one_line 1 "input and output at once" : build -o paths paths
cp list.tamis kept && ln list.tamis same
try "... also of query to LIST" one_line 2 "'list.tamis' is input and output at once" : query list.tamis -o list.tamis paths
try "... which is standard input" one_line 2 "'list.tamis' is input and output at once" : \
  query - -o list.tamis paths <same
check "... and stays as it was" cmp list.tamis kept
"$tamis" build $exact -o /dev/stdout paths | "$tamis" query - b >out 2>err
status=$?
check "build to a pipe" same_as expected.in
cp before.tamis list.tamis
chmod 600 list.tamis

# ---- info ----

try "info" good : info list.tamis
check "info: kind" grep -q '^kind *bloom, blocked$' out
check "info: lines" gawk -v n="$(wc -l <paths.sorted)" \
  '/^lines/ { found = $2 > 0.99 * n && $2 < 1.01 * n } END { exit !found }' out
check "info: the seed is a secret" test -z "$(row seed)"
run build --kind counting -o counting.tamis numbers
check "a list of counters" test "$status" -eq 0
run info counting.tamis
check "info: counters" test "$(row kind) $(row counters)" = "counting 10"
try "query: counters" same_as numbers : query counting.tamis numbers
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
try "info: standard input" good : info - < <(cat list.tamis)
try "info --check: standard input" good : info --check - < <(cat list.tamis)
run info list.tamis list2.tamis
check "info: several files are named" test "$(grep -c '^file ' out)" -eq 2

# ---- the report of a bug ----

mkdir of-a-client
cp seeded.tamis of-a-client/secret.tamis
head -c 3000 list.tamis >cut.tamis
run info --check cut.tamis list.tamis nowhere list.tamis
check "info --check: the files behind a damaged one are checked" test "$(grep -c '^checked ' out)" -eq 2
check "... of each bad one it says why" test "$status" -eq 2 -a "$(wc -l <err)" -eq 2
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
  try "build --like${form:+ $form}" good : build --like a.tamis half.b -o b.tamis
  try "merge${form:+ $form}" good : merge a.tamis b.tamis -o both.tamis
  try "... has all of both" cmp -s out paths : query both.tamis paths
  has_nothing_else both.tamis
  try "merge: three files, into the first" good : merge a.tamis b.tamis b.tamis -o a.tamis
  try "... has all" cmp -s out paths : query a.tamis paths
done
printf 'one\ntwo\n' >few
for list in bloom-word bloom-sections-growable cuckoo-fixed cuckoo-grown counting; do
  cp "$saved/1/${list/#counting/bloom-counting}.tamis" kept.tamis
  try "build --like $list" good : build --like kept.tamis few -o b.tamis
  run merge kept.tamis b.tamis -o both.tamis
  check "... and it fits" test "$(grep -c 'does not fit' err)" -eq 0
done
for list in window-fixed window-cuckoo-grown; do
  cp "$saved/1/$list.tamis" kept.tamis
  try "build --like $list: its lines would be forgotten" one_line 2 "has a window" : build --like kept.tamis few -o b.tamis
  run build --kind "$("$tamis" info kept.tamis | row kind - | tr -d ,)" few -o b.tamis
  try "merge $list with one that keeps its lines" one_line 2 "the window differs" : merge kept.tamis b.tamis -o both.tamis
done
try "windows of several layers have no union" one_line 1 "cannot unite" : merge kept.tamis kept.tamis -o both.tamis
cp "$saved/1/window-fixed.tamis" kept.tamis
try "merge of a window with itself" good : merge kept.tamis kept.tamis -o both.tamis
cp "$saved/1/counted.tamis" kept.tamis
try "build --like a shared cuckoo filter: it would not fit" one_line 2 "a list that is built is none" : \
  build --like kept.tamis few -o b.tamis
run build --fixed --capacity 1M half.a -o fixed.tamis
try "build --fixed --capacity: a cuckoo filter" grep -q '^kind *cuckoo$' out : info fixed.tamis
run build --fixed --capacity 1k half.a -o b.tamis
check "build --fixed: more lines than it has room for" one_line 1 "more distinct lines than fit"
run build --like "$saved/1/cuckoo-fixed.tamis" half.a -o b.tamis
check "... and so --like a filter that does not grow" one_line 1 "more distinct lines than fit"
run build --capacity 50k half.a -o a.tamis
run build --like a.tamis half.b -o b.tamis
run merge a.tamis b.tamis -o both.tamis
check "merge: more lines than planned for are told" \
  grep -q '^tamis: the union holds .* so the rate rose' err
run build --kind counting --capacity 1k half.a -o b.tamis
check "build --kind counting: the same" grep -q '^tamis: there were .* so the rate rose' err
run build --capacity 50k half.a -o b.tamis
cp both.tamis before.tamis
run merge a.tamis b.tamis -o both.tamis
check "merge: another seed" one_line 2 "'b.tamis' does not fit 'a.tamis', from which the seed differs"
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
try "build --like a text file" one_line 2 "'paths' is not a saved filter" : build --like paths numbers -o result
run query nowhere.tamis paths
check "a list that does not exist" one_line 2 "cannot read 'nowhere.tamis': No such file or directory"
try "a folder" one_line 2 "cannot read '.': Is a directory" : info .

# ---- the command line ----

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
finish
