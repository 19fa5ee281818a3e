#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests what the command says: the figures of info and --stats, what messages advise, and the help:
# test_messages.sh PATH-TO-TAMIS
lines=1000
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"
row() { sed -n "s/^$1  *//p" "${2:-out}"; }

# ---- how many lines ----

try "one line" one_line 1 "cannot put 1 line into" : dedup --capacity 1 --memory 1 --kind cuckoo paths

seq 10000 >ten
seq 5001 15000 >other

# The capacity is so large that a sample of the bits has few of them.
for form in "" "--layout classic" "--layout word --fpp 0.01" "--fixed --kind cuckoo"; do
  # shellcheck disable=SC2086
  run build --capacity 2M $form ten -o list
  run info list
  label=lines
  [[ $form != *cuckoo* ]] || label=copies
  check "info${form:+, $form}: the exact number of $label" test "$(row $label)" = "10000 (10.0 k)"
done
run build --capacity 20M --stats ten -o list
check "build --stats: the exact number of lines" test "$(row 'distinct lines' err)" = "10000 (10.0 k)"
run build --kind cuckoo --stats ten -o list
check "build --stats: cuckoo" test "$(row 'distinct lines' err)" = "10000 (10.0 k)"
# A layer of its own for each factor of two.
run build --capacity 1k ten -o list
run info list
check "info: several layers" test "$(row lines)" = "10000 (10.0 k)"

# about NAME EXPECTED: "about N (...), standard deviation D", and N is within five times D.
about() {
  local figure
  figure=$(row "$1" "${3:-out}")
  gawk -v expected="$2" '{ gsub(",", ""); d = $2 - expected; found = $1 == "about" &&
    $(NF - 2) == "standard" && $NF > 0 && $NF < expected / 20 && d * d <= 25 * $NF * $NF }
    END { exit !found }' <<<"$figure" || { echo "# $1: $figure"; return 1; }
}
for capacity in 20k 2M; do
  for form in "" "--layout classic" "--layout word --fpp 0.01"; do
    # shellcheck disable=SC2086
    run build --seed 1 --capacity $capacity $form ten -o list
    run build --like list other -o list.other
    run merge list list.other -o both
    try "info: a union${form:+, $form}, $capacity: about how many lines" about lines 15000 : info both
  done
done
# A union of many lists that are nearly the same.
run build --seed 1 --capacity 20k ten -o list
lists=(list)
for ((i = 0; i < 9; i++)); do
  seq $((20001 + 100 * i)) $((20100 + 100 * i)) | cat ten - >other.$i
  run build --like list other.$i -o list.$i
  lists+=("list.$i")
done
run merge "${lists[@]}" -o many
try "info: a union of ten lists that are nearly the same" about lines 10900 : info many
# Of several layers: a line is in the third one of a list, and in the first one of another.
run build --seed 1 --capacity 1k ten -o list
run build --like list other -o list.other
run merge list list.other -o layers
try "info: a union of several layers: at most so many lines" grep -q '^lines  *at most about [12]' out : info layers
run info --json both
check "info --json: how many lines a union has estimated" \
  gawk -F'[:,]' '{ for (i = 1; i < NF; i++) if ($i ~ "united_count") { n = $(i + 1) + 0; found = n > 4900 && n < 5100 } }
    END { exit !found }' out
run merge list list -o both
run info both
check "info: a union that brings nothing is exact" test "$(row lines)" = "10000 (10.0 k)"

cat ten ten ten >thrice
run build --kind counting --seed 1 --capacity 1M --stats thrice -o list
check "build --stats: counters estimate the lines" about 'distinct lines' 10000 err
run info list
check "info: counters count copies" test "$(row copies)" = "30000 (30.0 k)"
check "... and estimate the lines" about lines 10000
run build --kind cuckoo --capacity 20k --seed 1 ten -o list
run merge list list -o both
run info both
check "info: a union of cuckoo filters has copies of lines" test "$(row copies) $(row lines)" = "20000 (20.0 k) "

# ---- no more lines are wrong than there are ----

# at_most FIELD LIMIT
at_most() {
  gawk -v most="$2" '{ for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]/) found = $i <= most } END { exit !found }' \
    <<<"$(row "$1" err)" || { echo "# $(row "$1" err), not $2"; return 1; }
}
run dedup --fpp 0.9 --stats ten
dropped=$(row 'duplicates dropped' err)
check "wrongly dropped: not above the $dropped lines that were dropped" at_most 'wrongly dropped' "$dropped"
try "... nor above none" at_most 'wrongly dropped' 0 : dedup --stats <<<alone
run build --fpp 0.5 ten -o list
run query --stats list other
check "written by mistake: not above what was written" at_most 'written by mistake' "$(wc -l <out)"
seq 20000 20003 >few
run query -v --stats list few
check "wrongly left out: not above what was left out" at_most 'wrongly left out' $((4 - $(wc -l <out)))
: >none
try "common: written by mistake: nothing was written" at_most 'written by mistake' 0 : common --stats --fpp 0.5 none few
run common --stats --fpp 0.9 ten few few
check "... of three files" at_most 'written by mistake' "$(wc -l <out)"

# ---- what was it begun with, and what is enough ----

run dedup --state state --capacity 20k --fpp 1e-5 ten
for option in "--kind=bloom cuckoo, not bloom" "--fpp=0.1 1e-05, not 0.1" "--capacity=30k 20000, not 30000" \
  "--window=3 none, not 3"; do
  run dedup --state state "${option%% *}" ten
  name=${option%%=*}
  check "the state was begun with another $name" one_line 2 "begun with another $name: ${option#* }"
done
run dedup --state window --window 2 --capacity 20k ten
try "... another --window" one_line 2 "begun with another --window: 2, not 3" : dedup --state window --window 3 ten
try "... one without --renew" one_line 2 "another --window: one without --renew" : \
  dedup --state window --window 2 --renew ten
run build --capacity 20k --seed 1 ten -o list
for form in "--kind counting:kind differs (counting, not bloom)" "--layout classic:layout differs (classic, not blocked)" \
  "--capacity 30k:capacity differs (30000, not 20000)" "--fpp 1e-5:rate differs (1e-05, not 1e-06)"; do
  # shellcheck disable=SC2086
  run build --capacity 20k --seed 1 ${form%%:*} ten -o list.other
  run merge list list.other -o both
  check "merge says which: ${form%%:*}" one_line 2 "'list.other' does not fit 'list', from which the ${form#*:}"
done
run build --fixed --seed 1 ten -o list.fixed
run build --kind cuckoo --seed 1 ten -o list.cuckoo
try "... also which one is --fixed" one_line 2 "from which the growth differs (fixed, not growing)" : \
  merge list.cuckoo list.fixed -o both
run build --capacity 20k --seed 2 ten -o list.other
try "... but no seed, which is a secret" one_line 2 "from which the seed differs;" : merge list list.other -o both

# enough ARGUMENTS...: too little memory is refused with the --memory that is enough, and a little less is not.
# (Two filters share it, if `common` gets three files.)
enough() {
  local bytes
  run "$@" --memory 99
  bytes=$(sed -n 's/^tamis: .*; --memory \([0-9]*\) is enough$/\1/p' err)
  [ "$status" -ne 0 ] && [ "$(wc -l <err)" -eq 1 ] && [ "${bytes:-0}" -gt 99 ] || { sed 's/^/# /' err; return 1; }
  run "$@" --memory "$bytes"
  [ "$status" -eq 0 ] || { sed "s/^/# $bytes: /" err; return 1; }
  run "$@" --memory $((bytes - 2))
  [ "$status" -ne 0 ] || { echo "# $((bytes - 2)) is enough, too"; return 1; }
}
check "size: what memory is enough for a key" enough size
for grows in "--kind cuckoo --fpp 1e-9" "--window 64 --fpp 1e-6"; do
  # shellcheck disable=SC2086
  run size --capacity 1M $grows
  check "size: $grows, which one that grows cannot have" one_line 1 "that grows can give; use --fixed"
  # shellcheck disable=SC2086
  run size --capacity 1M $grows --fixed
  check "... and another can" test "$status" -eq 0
done
check "... for a key in a cuckoo filter" enough size --kind cuckoo --fixed
check "... for a capacity" enough size --capacity 1M
check "... for a window" enough size --capacity 10k --window 3
check "... for counters" enough size --capacity 10k --kind counting
check "common: what memory is enough" enough common --capacity 10k ten few
check "... for three files" enough common --capacity 10k ten ten few
check "... for cuckoo filters" enough common --kind cuckoo --capacity 10k ten few
head -n 1 ten >one
check "... for a small one" enough dedup --kind cuckoo --capacity 1 one
check "... for counters" enough common --kind counting --capacity 10k ten few
pipe_of_ten() { "$tamis" dedup --memory "$1" < <(head -n 1 ten) >out 2>err; status=$?; }
pipe_of_ten 99
bytes=$(sed -n 's/^tamis: .*; --memory \([0-9]*\) is enough$/\1/p' err)
pipe_of_ten "${bytes:-1}"
check "dedup: what memory is enough for a pipe of one line: ${bytes:-}" test "$status" -eq 0
cp state before
run dedup --state state --memory 1K ten
bytes=$(sed -n 's/^tamis: .*; --memory \([0-9]*\) is enough$/\1/p' err)
run dedup --state state --memory "${bytes:-1}" ten
check "dedup: what memory is enough for a state: ${bytes:-}" test "$status" -eq 0

# ---- no random seeds ----

if strace_runs; then
  for words in "dedup ten" "common ten few" "common ten ten few" "build ten -o list" "dedup --memory 1M ten"; do
    # shellcheck disable=SC2086
    strace -f -o log -e trace=getrandom -e inject=getrandom:error=EPERM "$tamis" $words >out 2>err
    status=$?
    check "getrandom is denied: tamis $words" one_line 1 "the system call getrandom fails"
  done
  strace -f -o log -e trace=getrandom -e inject=getrandom:error=EPERM "$tamis" build --seed 1 ten -o list >out 2>err
  status=$?
  check "... and not needed by build --seed" ends_by 0
else
  skip "getrandom is denied" "strace does not run"
fi

# ---- help ----

commands=$("$tamis" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
check "--help names the commands" test "$(wc -w <<<"$commands")" -ge 7
for command in $commands; do
  for wrong in --frob -Z; do
    try "tamis $command $wrong points to the help" one_line 2 "see 'tamis $command --help': " : "$command" $wrong
  done
  run "$command" --help
  cp out help
  try "tamis help $command" same_as help : help "$command"
done
try "an option without its value points to the help" one_line 2 "see 'tamis dedup --help': " : dedup --threads
run --help
cp out help
try "tamis help" same_as help : help
try "tamis help sort" one_line 2 "no command 'sort'" : help sort

finish
