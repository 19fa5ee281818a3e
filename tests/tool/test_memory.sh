#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests that --memory buys what it announces, and `tamis size`: test_memory.sh PATH-TO-TAMIS
# shellcheck disable=SC2002,SC2094  # pipes are tested; a file is named as a command is
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

announced() { grep -q "^tamis: $1" err || { sed 's/^/#   /' err; return 1; }; }
# within_memory LESS MORE: as `within in_both`, also where there is a summary.
within_memory() { local given=$status; : >err && status=0; [ "$given" -eq 0 ] && within in_both "$1" "$2"; }
missing() { echo $(($1 - $(wc -l <out))); }
sort -R --random-source=numbers paths | head -n 50000 >a
{ cat paths; seq 1 100000; } >b
grep -Fxf a b >in_both
head -n 31000 a >a.31k
gawk 'BEGIN { for (i = 0; i < 1000000; i++) print "other " i }' >others

# ---- common ----

for kind in Bloom cuckoo; do
  of=(--kind "${kind,,}")
  run common "${of[@]}" --memory 4M --stats a b
  check "$kind: says beforehand what it buys" announced '4.00 MiB for .*rate of'
  check "... keeps to it" in_memory $((4 << 20))
  check "... tells the lines of A" grep -q '^lines of A *50000$' err
  check "... and what it measured" grep -q '^rate measured .* random keys' err
  check "... finds all, and next to nothing else" within_memory 0 2
  try "$kind: --quiet is quiet" test ! -s err : common "${of[@]}" --memory 1M --quiet a b
  run common "${of[@]}" --memory 50KB --capacity 5k a others
  check "$kind: more lines than memory holds" test "$status" -eq 1 -a ! -s out
  check "... says so" grep -q "^tamis: more distinct lines than fit into a $kind filter" err
  run common "${of[@]}" --memory 50KB --capacity 31k a.31k others
  said=$(gawk '/^written by mistake/ { print $5 }' err)
  check "$kind: $(wc -l <out) wrong lines, $said said" \
    gawk -v w="$(wc -l <out)" -v g="$said" 'BEGIN { exit !(w > 100 && g > 0.8 * w && g < 1.25 * w) }'
  for memory in $(seq 100 150 1000); do
    run common "${of[@]}" --memory "${memory}k" --capacity 50k --stats a a
    { [ "$status" -eq 0 ] && cmp -s out a && in_memory $((memory << 10)); } || break
  done
  check "$kind: any size holds the lines planned for" test "$memory" -eq 1000
  try "$kind: too small for anything" one_line 1 'cannot put' : common "${of[@]}" --memory 1 a b
  check "... nothing written" silent_output
  # How many lines a pipe has nobody knows: as many are promised as fit at the rate, and more are an error.
  case $kind in Bloom) fits=200000 rate=0.0001 ;; cuckoo) fits=95000 rate=1e-06 ;; esac
  run common "${of[@]}" --memory 512K --stats - others < <(seq "$fits")
  check "$kind: A from a pipe: announces what it does" \
    announced "512 KiB for up to .*: a false-positive rate of at most $rate; more lines are an error"
  check "... keeps to it" in_memory $((512 << 10))
  check "... writes few others" test "$status" -eq 0 -a "$(wc -l <out)" -le 150
  try "... also by a name, and finds all" same_as numbers : common "${of[@]}" --memory 4M --quiet <(cat numbers) numbers
  try "$kind: more lines from a pipe than fit" one_line 1 "more distinct lines than fit into a $kind filter" : \
    common "${of[@]}" --memory 512K --quiet - others < <(cat numbers)
  try "$kind: too small for any line" one_line 1 'cannot put any line into' : common "${of[@]}" --memory 100 - b < <(cat a)
done
# Lines that A repeats take no room; and a cuckoo filter grows within its memory.
for _ in $(seq 300); do seq 1000; done >repeating
seq 1000 >thousand
try "cuckoo: lines that A repeats take no room" within thousand 0 2 : \
  common --kind cuckoo --capacity 1k --memory 32K --quiet --fpp 5e-8 repeating numbers
run common --kind cuckoo --memory 4M --capacity 5k --stats a b
check "cuckoo: grows within its memory" grep -q '^filter .* growth steps$' err
check "... keeps to it" in_memory $((4 << 20))
check "... and to its rate" test -z "$(grep 'rate rose' err)"
check "... finds all" within_memory 0 2
try "a rate that memory holds" grep -q 'rate of 0.001$' err : common --memory 1MiB --fpp 1e-3 a b
try "a rate that it cannot hold" grep -q '^tamis: 20.0 KiB cannot hold .*it buys' err : \
  common --memory 20K --fpp 1e-6 --capacity 31k a b
try "the rate of a pipe" announced '1.00 MiB for up to .* at most 0.001' : common --memory 1M --fpp 1e-3 - b < <(cat a)
: >empty.txt
try "an empty A is no pipe" announced '1.00 MiB for about ' : common --memory 1M --stats empty.txt b
try "with --capacity: says what part it takes" \
  announced '1.00 GiB for 100 k lines, which take [0-9.]* KiB of it: a false-positive rate of 1e-08' : \
  common --memory 1G --capacity 100k - b < <(cat a)
try "a rate that no filter gives" one_line 1 'lower than a Bloom filter can give' : \
  common --memory 1M --fpp 1e-30 - b < <(cat a)
run common --memory 4M --stats a b numbers b
check "four files: says what each filter gets" test "$(grep -c '^tamis: 2.00 MiB for ' err)" -eq 3
check "... in half of it each" grep -q '^filter  *[0-9.]* \(KiB\|MiB\) in 1 level' err
try "too small for three" one_line 1 'cannot put' : common --memory 1 a b b

# ---- dedup ----

run dedup --memory 1M --stats paths
check "dedup: says what it buys" announced '1.00 MiB for about .*: a false-positive rate of'
check "... keeps to it" in_memory $((1 << 20))
check "... drops few lines" test "$(missing "$(wc -l <paths.expected)")" -le 2
run dedup --memory 2M --stats < <(cat numbers)
check "dedup of a pipe" announced '2.00 MiB for up to .* lines: a false-positive rate of at most'
check "... keeps to it" in_memory $((2 << 20))
check "... drops few lines" test "$(missing 300000)" -le 5
try "dedup: too small for anything" one_line 1 'cannot put' : dedup --memory 1K paths
try "dedup --quiet" ends_by 0 : dedup --memory 1M --quiet --threads 4 paths
run dedup --memory 64K --capacity 20k numbers
check "dedup: far too small; the lines that fit" test "$status" -eq 1 -a "$(missing 300000)" -le 290000
check "... says why" grep -q '^tamis: more distinct lines than fit into a Bloom filter' err
run dedup --kind cuckoo --memory 64K --quiet numbers
check "dedup --kind cuckoo" test "$status" -eq 1
# The sample shows half of the lines again and again, so the estimate is too low.
gawk 'BEGIN { for (i = 0; i < 300000; i++) print "r" i % 1000 "\n" i }' >misleading
run dedup --memory 16M misleading
check "dedup: memory that is left makes up for a low estimate: $(missing 301000) missing" test "$(missing 301000)" -le 2

# ---- size ----

size_is() { # NAME VALUE ARGUMENTS...
  local name=$1 value=$2
  shift 2
  run size "$@"
  check "size $*: $name $value" test "$(row "$name")" = "$value" -a "$status" -eq 0
}
for pair in 1500000=1.5M 1500000=1.5m 1000000=1e6 2000000000=2G 500=.5k 1300=1.3K 12000=1.2e4 \
  1000000=1.e6 20000=2E1k 1234567=1.234567M 1099511627776=1099511627776 1000000000000=1T; do
  size_is capacity "${pair%=*}" --capacity "${pair#*=}"
done
capacity=$("$tamis" size --memory 1572864 | row capacity -)
for memory in 1.5M 1.5MiB 1.5MB 1536K 1.5m 1572864B 1572864.9 1.572864e6; do
  size_is capacity "$capacity" --memory $memory
done

# What a size is said to be is what the library takes.
run size --capacity 1k --fpp 0.001 --kind cuckoo --fixed
bytes=$(row bytes)
run common --capacity 1k --fpp 0.001 --kind cuckoo --memory "$bytes" thousand thousand
check "size: these bytes are enough" cmp -s out thousand
for form in "--kind bloom" "--layout classic" "--layout blocked --fpp 0.01" "--layout word --fpp 0.01" "--kind cuckoo" \
  "--kind cuckoo --fixed --fpp 1e-3" "--kind counting" "--fpp 1e-10"; do
  # shellcheck disable=SC2086
  {
    run size --memory 4M $form
    capacity=$(row capacity) bytes=$(row bytes)
    check "size $form: within the memory" test "$bytes" -le 4194304 -a "$bytes" -gt 4000000
    size_is bytes "$bytes" --capacity "$capacity" $form
    run size --memory 4M --capacity "$capacity" ${form%--fpp*}
    check "size $form: the rate of that capacity, $(row fpp)" \
      test "$(row bytes)" -le 4194304
  }
done
run size --capacity 1G --fpp 1e-6 --memory 4G
check "size: what it takes, and what memory buys" test "$(grep -c ^bytes out)" -eq 3
try "size: the layout" grep -q '^kind *bloom, blocked$' out : size --capacity 1M --fpp 1e-9
try "size: the layout of one word" grep -q '^kind *bloom, word$' out : size --capacity 1M --layout word --fpp 0.01
try "size: counters" grep -q '^kind *counting$' out : size --capacity 1M --kind counting
size_is fpp 0.0001 --capacity 1M --kind counting
usage "needs --capacity or --memory" size
usage "takes no files" size --capacity 1M file
usage "--layout: 'round' is neither" size --capacity 1M --layout round
usage "for Bloom filters" size --capacity 1M --kind cuckoo --layout classic
usage "for Bloom filters" size --capacity 1M --kind counting --layout classic
usage "for cuckoo filters" size --capacity 1M --fixed
usage "--kind: 'round' is neither bloom nor cuckoo nor counting" size --capacity 1M --kind round
usage "unrecognized option '--threads=2'" size --capacity 1M --threads=2
try "size: too little memory" one_line 1 "10 B is too little" : size --memory 10
try "size: too little memory for a capacity" one_line 1 "10 B is too little" : size --memory 10 --capacity 1M
try "size: a rate that no filter gives" one_line 1 "lower than a Bloom filter can give" : size --memory 1G --fpp 1e-30
try "size: a rate that counters cannot give" one_line 1 "lower than a counting Bloom filter can give" : \
  size --capacity 1M --fpp 1e-6 --kind counting
try "size: a rate that a cuckoo filter cannot give" one_line 1 "lower than a cuckoo filter can give" : \
  size --capacity 1M --fpp 1e-12 --kind cuckoo
by=to_full try "size: a full disk" one_line 1 "No space left on device" : size --capacity 1M

finish
