#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests that --memory buys what it announces, and `tamis size`: test_memory.sh PATH-TO-TAMIS
# shellcheck disable=SC2002,SC2094  # pipes are tested; a file is named as a command is
set -u
export LC_ALL=C

tamis=$(realpath "${1:?usage: test_memory.sh PATH-TO-TAMIS}")
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$(realpath "$0")")/tap.sh"

in_memory() { # BYTES: according to the summary, the filter took no more
  gawk -v most="$1" '/^filter/ { unit = $3 == "KiB" ? 1024 : $3 == "MiB" ? 1048576 : 1
    found = $2 * unit <= most * 1.005 } END { exit !found }' err
}
row() { gawk -v name="$1" '$1 == name { print $2 }' "$2"; }
announced() { grep -q "^tamis: $1" err || { sed 's/^/#   /' err; return 1; }; }
# at_most COUNT: the last run wrote at most so many lines.
at_most() {
  [ "$status" -eq 0 ] && [ "$(wc -l <out)" -le "$1" ] && return
  echo "# status $status, $(wc -l <out) lines"
  return 1
}

# ---- common, where A is a pipe ----

seq 3000000 >many
seq 3000001 6000000 >others
# There is room for twice as many lines, at 1e-4: of those of `others` about one is expected to be wrong, and
# more than 10 are once in 10^9 runs.
cat many | "$tamis" common --memory 16M --stats - others >out 2>err
status=$?
check "A from a pipe: 16M for 3 M lines" at_most 10
check "... announces what it does" announced '16.0 MiB for up to .* lines: a false-positive rate of at most'
check "... keeps to it" in_memory $((16 << 20))
cat many | "$tamis" common --memory 16M --quiet - many >out 2>err
check "... finds all" cmp -s out many
"$tamis" common --memory 16M --quiet <(cat many) others >out 2>err
status=$?
check "... also by a name" at_most 10
mkfifo fifo
in_background 'cat many >fifo'
run common --memory 16M --quiet fifo others
check "... and from a FIFO" at_most 10

# More lines than the memory holds at the rate are an error, and the rate never rises.
cat many | "$tamis" common --memory 3M - others >out 2>err # 8.4 bits for each
status=$?
check "a full filter" test "$status" -eq 1 -a ! -s out
check "... says why" grep -q '^tamis: more distinct lines than fit into a Bloom filter' err

head -n 100000 many >fewer
head -n 1000000 others >some
cat fewer | "$tamis" common --memory 1M --fpp 1e-3 --stats - some >out 2>err
status=$?
check "with --fpp: half full" at_most 20
check "... announces that rate" announced '1.00 MiB for up to .* at most 0.001'
: >empty.txt
run common --memory 1M --stats empty.txt some
check "an empty A is no pipe" announced '1.00 MiB for about '
cat fewer | "$tamis" common --memory 1G --capacity 100k - some >out 2>err
check "with --capacity: says what part it takes" \
  announced '1.00 GiB for 100 k lines, which take [0-9.]* KiB of it: a false-positive rate of 1e-08'

for memory in 1 100 180B; do
  cat fewer | "$tamis" common --memory $memory - some >out 2>err
  status=$?
  check "--memory $memory: too small for any line" one_line 1 'cannot put any line into'
done
cat fewer | "$tamis" common --memory 1M --fpp 1e-30 - some >out 2>err
status=$?
check "a rate that no filter gives" one_line 1 'lower than a Bloom filter can give'

# ---- the cuckoo kind ----

"$tamis" size --memory 512K --kind cuckoo --fixed >size
fits=$(row capacity size)
seq "$fits" >fitting
cat fitting | "$tamis" common --kind cuckoo --memory 512K --stats - some >out 2>err
status=$?
check "cuckoo: as many lines as announced ($fits)" test $status -eq 0
check "... are announced" announced '512 KiB for up to .* at most 1e-06; more lines are an error'
check "... in this memory" in_memory $((512 << 10))
cat many | "$tamis" common --kind cuckoo --memory 512K --quiet - some >out 2>err
status=$?
check "cuckoo: too many lines" one_line 1 'more distinct lines than fit into a cuckoo filter'

# ---- dedup ----

missing() { echo $(($1 - $(wc -l <out))); }
run dedup --memory 1M --stats paths
check "dedup --memory: says what it buys" announced '1.00 MiB for about .*: a false-positive rate of'
check "... keeps to it" in_memory $((1 << 20))
check "... drops few lines" test "$(missing "$(wc -l <paths.expected)")" -le 2
cat many | "$tamis" dedup --memory 16M --stats >out 2>err
check "dedup --memory: a pipe" announced '16.0 MiB for up to .* lines: a false-positive rate of at most'
check "... keeps to it" in_memory $((16 << 20))
check "... drops few lines" test "$(missing 3000000)" -le 5
run dedup --memory 1K paths
check "dedup --memory: too small for anything" one_line 1 'cannot put'
run dedup --memory 1M --quiet --threads 4 paths
check "dedup --memory --quiet" ends_by 0
run dedup --memory 256K --capacity 100k many
check "dedup --memory: far too small; the lines that fit" test "$status" -eq 1 -a "$(missing 3000000)" -le 2900000
check "... says why" grep -q '^tamis: more distinct lines than fit into a Bloom filter' err
run dedup --kind cuckoo --memory 256K --quiet many
check "dedup --kind cuckoo --memory" test "$status" -eq 1
# The sample shows half of the lines again and again, so the estimate is too low.
gawk 'BEGIN { for (i = 0; i < 1000000; i++) print "r" i % 1000 "\n" i }' >misleading
run dedup --memory 64M misleading
check "dedup --memory: memory that is left makes up for a low estimate: $(missing 1001000) missing" \
  test "$(missing 1001000)" -le 2

# ---- size ----

size_is() { # NAME VALUE ARGUMENTS...
  local name=$1 value=$2
  shift 2
  run size "$@"
  check "size $*: $name $value" test "$(row "$name" out)" = "$value" -a "$status" -eq 0
}
for pair in 1500000=1.5M 1500000=1.5m 1000000=1e6 2000000000=2G 500=.5k 1300=1.3K 12000=1.2e4 \
  1000000=1.e6 20000=2E1k 1234567=1.234567M 1099511627776=1099511627776 1000000000000=1T; do
  size_is capacity "${pair%=*}" --capacity "${pair#*=}"
done
capacity=$("$tamis" size --memory 1572864 | gawk '/^capacity/ { print $2 }')
for memory in 1.5M 1.5MiB 1.5MB 1536K 1.5m 1572864B 1572864.9 1.572864e6; do
  size_is capacity "$capacity" --memory $memory
done

# What a size is said to be is what the library takes.
seq 1000 >thousand
run size --capacity 1k --fpp 0.001 --kind cuckoo --fixed
bytes=$(row bytes out)
run common --capacity 1k --fpp 0.001 --kind cuckoo --memory "$bytes" thousand thousand
check "size: these bytes are enough" cmp -s out thousand
for form in "--kind bloom" "--layout classic" "--layout blocked --fpp 0.01" "--layout word --fpp 0.01" "--kind cuckoo" \
  "--kind cuckoo --fixed --fpp 1e-3" "--kind counting" "--fpp 1e-10"; do
  # shellcheck disable=SC2086
  {
    run size --memory 4M $form
    capacity=$(row capacity out) bytes=$(row bytes out)
    check "size $form: within the memory" test "$bytes" -le 4194304 -a "$bytes" -gt 4000000
    size_is bytes "$bytes" --capacity "$capacity" $form
    run size --memory 4M --capacity "$capacity" ${form%--fpp*}
    check "size $form: the rate of that capacity, $(row fpp out)" \
      test "$(row bytes out)" -le 4194304
  }
done
run size --capacity 1G --fpp 1e-6 --memory 4G
check "size: what it takes, and what memory buys" test "$(grep -c ^bytes out)" -eq 3
run size --capacity 1M --fpp 1e-9
check "size: the layout" grep -q '^kind *bloom, blocked$' out
run size --capacity 1M --layout word --fpp 0.01
check "size: the layout of one word" grep -q '^kind *bloom, word$' out
run size --capacity 1M --kind counting
check "size: counters" grep -q '^kind *counting$' out
size_is fpp 0.0001 --capacity 1M --kind counting
size_usage() {
  local text=$1
  shift
  run size "$@"
  check "usage: tamis size $*" one_line 2 "$text"
}
size_usage "needs --capacity or --memory"
size_usage "takes no files" --capacity 1M file
size_usage "--layout: 'round' is neither" --capacity 1M --layout round
size_usage "for Bloom filters" --capacity 1M --kind cuckoo --layout classic
size_usage "for Bloom filters" --capacity 1M --kind counting --layout classic
size_usage "for cuckoo filters" --capacity 1M --fixed
size_usage "--kind: 'round' is neither bloom nor cuckoo nor counting" --capacity 1M --kind round
size_usage "unrecognized option '--threads=2'" --capacity 1M --threads=2
run size --memory 10
check "size: too little memory" one_line 1 "10 B is too little"
run size --memory 10 --capacity 1M
check "size: too little memory for a capacity" one_line 1 "10 B is too little"
run size --memory 1G --fpp 1e-30
check "size: a rate that no filter gives" one_line 1 "lower than a Bloom filter can give"
run size --capacity 1M --fpp 1e-6 --kind counting
check "size: a rate that counters cannot give" one_line 1 "lower than a counting Bloom filter can give"
run size --capacity 1M --fpp 1e-12 --kind cuckoo
check "size: a rate that a cuckoo filter cannot give" one_line 1 "lower than a cuckoo filter can give"
"$tamis" size --capacity 1M >/dev/full 2>err
status=$?
check "size: a full disk" one_line 1 "No space left on device"

echo "1..${number:?}"
[ "${failures:?}" -eq 0 ]
