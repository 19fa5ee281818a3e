#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests of the command-line program against exact tools: test_tool.sh PATH-TO-TAMIS [short]
# Without TAMIS_LONG in the environment, it tries shorter lines and fewer sizes of memory; so it does with
# "short".
# Prints "ok N - name" or "not ok N - name" for each, and exits 1 if any failed.
# shellcheck disable=SC2002,SC2094  # pipes are tested, and outputs that are inputs
set -u
export LC_ALL=C

tamis=$(realpath "${1:?usage: test_tool.sh PATH-TO-TAMIS [short]}")
step=20 megabytes=100
[ "${TAMIS_LONG:-}" ] || step=200 megabytes=10
[ "${2:-}" != short ] || step=200 megabytes=10
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$(realpath "$0")")/tap.sh"

# ---- input ----

printf '' >empty
printf '\n\n\n' >newlines
printf 'one\ntwo\none' >unended
printf 'a\r\na\nb\r\na\r\n' >crlf
printf 'a\0b\na\0c\na\0b\n\0\na\n\0\n' >nul
printf '\377\376\n\303\n\377\376\nx\n' >bytes
head -c ${megabytes}000000 /dev/zero | tr '\0' 'x' >huge
{ cat huge; echo; echo short; cat huge; echo; echo short; cat huge; } >huge.lines

# ---- dedup against exact tools ----

run dedup $exact paths
check "one thread keeps the order of first appearance" same_as paths.expected

run dedup $exact <paths
check "standard input from a file" same_as paths.expected
tail -n +2 paths | exact_dedup >expected
(read -r _ && "$tamis" dedup $exact $exact >out 2>err) <paths
status=$?
check "standard input that was read from already" same_as expected
cat paths | "$tamis" dedup $exact >out 2>err
status=$?
check "standard input from a pipe" same_as paths.expected
cat paths | "$tamis" dedup $exact - >out 2>err
status=$?
check "a pipe named -" same_as paths.expected
(for i in 1 2 3 4 5; do printf 'slow %d\nsl' $((i % 2)); sleep 0.02; printf 'ow\n'; done) |
  "$tamis" dedup $exact >out 2>err
status=$?
printf 'slow 1\nslow\nslow 0\n' >expected
check "a pipe that is written in pieces" same_as expected
rm -f out
(printf 'a\na\na\n'; until [ -s out ]; do sleep 0.05; done; sleep 2.9; printf 'a\nb\n') |
  "$tamis" dedup --window 1 --period 0.7 >out 2>err
status=$?
printf 'a\na\nb\n' >expected
check "a window forgets lines after two periods" same_as expected
run dedup --fpp 1e-7 --window 1 --period 100 paths
check "and keeps them for one" within paths.expected 2 0
(printf 'a\n'; sleep 0.2; printf 'a\nb\n') | "$tamis" dedup --window 1 --period 100 >out 2>err
status=$?
printf 'a\nb\n' >expected
check "... however late they come again" same_as expected
run dedup --window 65 paths
check "no window has more than 64 periods" one_line 2 "from 1 to 64"
run dedup --period 3 paths
check "--period needs --window" one_line 2 "needs --window"
run dedup --window 3 --kind counting paths
check "no window is of the counting kind" one_line 2 "--kind bloom or cuckoo"
run dedup $exact <(cat paths) <(cat numbers)
cat paths.expected numbers >expected
check "named pipes" same_as expected

for file in empty newlines unended crlf bytes; do
  exact_dedup $file >expected
  run dedup $exact $file
  check "input '$file'" same_as expected
done
run dedup $exact nul
printf 'a\0b\na\0c\n\0\na\n' >expected
check "NUL bytes" same_as expected
run dedup $exact unended newlines unended empty
printf 'one\ntwo\n\n' >expected
check "the last line of a file without newline is not glued to the next file" same_as expected
run dedup $exact -- ./unended - <empty
printf 'one\ntwo\n' >expected
check "names after -- and an empty standard input" same_as expected
{ cat huge; echo; echo short; } >expected
for threads in 1 4; do
  run dedup $exact --threads $threads huge.lines
  [ $threads -eq 1 ] || sort -o out out
  [ $threads -eq 1 ] || sort -o expected expected
  check "lines of $megabytes MB with $threads thread(s)" same_as expected
done
cat huge.lines | "$tamis" dedup $exact --quiet >out 2>err
status=$?
{ cat huge; echo; echo short; } >expected
check "lines of $megabytes MB from a pipe" same_as expected
rm -f huge expected out
for i in $(seq 1500); do echo "$((i % 700))" >"tiny.$i"; done
run dedup $exact tiny.*
seq 0 699 | sort >expected
sort -o out out
check "more files than may be open at once" same_as expected
exact_dedup /proc/self/limits >expected
run dedup $exact /proc/self/limits
check "a file of /proc, whose size is 0" same_as expected
mkfifo fifo
in_background 'cat paths >fifo'
run dedup $exact fifo
check "a FIFO" same_as paths.expected

run dedup paths
check "the default rate: $(($(wc -l <paths.expected) - $(wc -l <out))) missing, 0 or 1 are likely" \
  test "$(wc -l <out)" -ge $(($(wc -l <paths.expected) - 4))

# ---- more lines than expected ----

gawk 'BEGIN { for (i = 0; i < 200000; i++) print "line " i % 100000 }' >many
grow_chain 1
run dedup --fpp 1e-10 --capacity 10 numbers
check "a chain of filters keeps the order" same_as numbers
run dedup --capacity 1k --stats many
check "--stats tells of the levels" grep -q ' in [2-9] levels' err

# ---- --output and --stats ----

run dedup $exact -o result paths
check "--output: nothing on standard output" silent_output
cp result out
check "--output FILE" same_as paths.expected
seq 1000000 >result
run dedup $exact --output=result unended
printf 'one\ntwo\n' >expected
cp result out
check "--output empties a file that stands already" same_as expected
run dedup $exact --stats paths
check "--stats: status 0" test "$status" -eq 0
check "--stats: lines read" grep -q '^lines read *200000$' err
check "--stats: distinct lines" grep -q "^distinct written *$(wc -l <paths.expected)\$" err
check "--stats: duplicates" \
  grep -q "^duplicates dropped *$((200000 - $(wc -l <paths.expected)))\$" err
check "--stats: bytes" grep -q "^bytes read *$(wc -c <paths) " err
check "--stats: one level for an estimated file" grep -q '^filter .* in 1 level$' err
run dedup --stats --threads 2 empty
check "--stats of nothing" grep -q '^lines read *0$' err

# ---- common ----

sort -R --random-source=numbers paths | head -n 50000 >a
{ cat paths; seq 1 100000; cat bytes newlines unended; } >b
grep -Fxf a b >expected
run common $exact a b
check "common writes what grep -Fxf writes, in its order" same_as expected
sort expected >expected.sorted
cat a | "$tamis" common $exact - b >out 2>err
status=$?
check "common: A from a pipe" same_as expected
cat b | "$tamis" common $exact a - >out 2>err
status=$?
check "common: B from a pipe" same_as expected
run common $exact --capacity 20 a b
check "common: more lines in A than expected" same_as expected
run common $exact empty b
check "common: nothing in A" same_as empty
run common $exact b empty
check "common: nothing in B" same_as empty
run common $exact newlines b
printf '\n\n\n' >expected.newlines
check "common: empty lines" same_as expected.newlines
run common $exact unended b
printf 'one\ntwo\none\n' >expected.unended
check "common: last lines without newline" same_as expected.unended

# More than two files: the last one's lines that are in all others.
gawk 'NR % 3' numbers >c1
gawk 'NR % 5' numbers | sort -R --random-source=numbers >c2
{ gawk 'NR % 7' numbers; gawk 'NR % 7' numbers; } >c3
{ cat numbers; echo other; head -n 100 numbers; } >c4
grep -Fxf c1 c4 | grep -Fxf c2 | grep -Fxf c3 >expected.all
run common $exact c1 c2 c3 c4
check "common: four files" same_as expected.all
cat c2 | "$tamis" common $exact --threads 4 c1 - c3 c4 >out 2>err
status=$?
sort -o out out
sort expected.all >expected.all.sorted
check "common: four files, one of them standard input, several threads" same_as expected.all.sorted
run common --fpp 1e-9 --capacity 20 c1 c2 c3 c4
check "common: four files, more lines than expected" within expected.all 0 2
run common --kind cuckoo --fpp 2e-7 c1 c2 c3 c4
check "common: four files, cuckoo" within expected.all 0 2
run common $exact c1 empty c4
check "common: nothing in one of several" same_as empty
run common --memory 4M --stats c1 c2 c3 c4
check "common --memory: four files" test "$(comm -23 <(sort out) expected.all.sorted | wc -l)" -le 2
check "... all lines are found" test -z "$(comm -13 <(sort out) expected.all.sorted)"
check "... says what each filter gets" test "$(grep -c '^tamis: 2.00 MiB for ' err)" -eq 3
check "... in half of it each" grep -q '^filter  *[0-9.]* \(KiB\|MiB\) in 1 level' err
run common --memory 1 c1 c2 c3
check "common --memory: too small for three" one_line 1 'cannot put'
# The rates of all filters add up to the one asked: each line of `other` is in all files but one.
seq 1 100000 >in
seq 100001 300000 >out.of
{ cat in out.of; } >"more"
for absent in 1 2 3; do
  files=(more more more)
  files[absent - 1]=in
  run common --fpp 0.03 --capacity 100k "${files[@]}" out.of
  wrong=$(wc -l <out)
  # That of the file and those after it add a part each: at most 2000 of these lines, and 1200 where
  # one level is in use.
  check "common: the rates of three filters add up: $wrong wrong lines, file $absent" \
    test "$wrong" -ge $((1000 * (4 - absent))) -a "$wrong" -le $((2100 * (4 - absent)))
done

run common --memory 1M a b
check "--memory: all lines of A are found" test -z "$(comm -13 <(sort out) expected.sorted)"
check "--memory says beforehand what it buys" grep -q '^tamis: 1.00 MiB for .*rate of' err
check "--memory tells what it measured" grep -q '^rate measured .* random keys' err
check "--memory tells the lines of A" grep -q '^lines of A *50000$' err
run common --memory 1M --quiet a b
check "--memory --quiet is quiet" test ! -s err
run common --memory 1MiB --fpp 1e-3 a b
check "--memory with a rate that it holds" grep -q 'rate of 0.001$' err
run common --memory 20K --fpp 1e-6 --capacity 31k a b
check "--memory with a rate that it cannot hold" grep -q '^tamis: 20.0 KiB cannot hold .*it buys' err
gawk 'BEGIN { for (i = 0; i < 1000000; i++) print "other " i }' >others
run common --memory 50KB --capacity 50k a others
wrong=$(wc -l <out)
guess=$(gawk '/^written by mistake/ { print $5 }' err)
check "--memory: $wrong wrong lines, $guess said" \
  gawk -v w="$wrong" -v g="$guess" 'BEGIN { exit !(w > 100 && g > 0.8 * w && g < 1.25 * w) }'
run common --memory 50KB --capacity 5k a others
check "--memory: A larger than expected is an error" grep -q 'more distinct lines than fit' err
for memory in $(seq 100 $step 500); do
  run common --memory "${memory}k" --capacity 50k a empty
  [ "$status" -eq 0 ] || break
  run common --memory "${memory}k" --capacity 50k --fpp 1e-7 a empty
  [ "$status" -eq 0 ] || break
done
check "--memory: any size gives a filter" test "$status" -eq 0
run common --memory 1K a b
check "--memory too small for anything" one_line 1 'cannot put'
check "--memory too small: nothing written" silent_output

# ---- the cuckoo kind ----

# shellcheck disable=SC2086  # $cuckoo is two words
cuckoo_dedup() { run dedup $cuckoo "$@"; }
# shellcheck disable=SC2086
cuckoo_common() { run common $cuckoo "$@"; }

cuckoo_dedup paths
check "cuckoo: one thread keeps the order of first appearance" within paths.expected 2 0
cuckoo_dedup < <(cat paths)
check "cuckoo: a pipe" within paths.expected 2 0
for file in empty newlines unended crlf bytes; do
  exact_dedup $file >expected.file
  cuckoo_dedup $file
  check "cuckoo: input '$file'" same_as expected.file
done
head -n 50000 numbers >fewer
for capacity in 1 10 1k; do
  cuckoo_dedup --capacity $capacity fewer fewer
  check "cuckoo: capacity $capacity grows to 50000" within fewer 2 0
done
run dedup --kind cuckoo --capacity 10 --fpp 0.01 --stats numbers
missing=$((300000 - $(wc -l <out)))
check "cuckoo: the rate is kept from 10 to 300000: $missing missing" test "$missing" -le 3300
check "cuckoo: --stats tells of the growth" grep -q '^filter .*iB after [0-9]* growth steps$' err
check "cuckoo: --stats tells a rate within the one asked" \
  test "$(gawk '/^false-positive rate/ { print ($3 > 0 && $3 <= $5) }' err)" = 1
run dedup --kind cuckoo --stats numbers
check "cuckoo: no growth where an estimate is good" grep -q '^filter .* in 1 level$' err

cuckoo_common a b
check "cuckoo: common writes what grep -Fxf writes, in its order" within expected 0 2
cuckoo_common --capacity 20 a b
check "cuckoo: common, far more lines in A than expected" within expected 0 2
for _ in $(seq 300); do seq 1000; done >repeating
seq 1000 >expected.repeating
run common --kind cuckoo --capacity 1k --memory 32K --quiet --fpp 5e-8 repeating numbers
check "cuckoo: lines that A repeats take no room" within expected.repeating 0 2

in_memory() { # SIZE: according to the summary, the filter took no more
  gawk -v most="$1" '/^filter/ { unit = $3 == "KiB" ? 1024 : $3 == "MiB" ? 1048576 : 1
    found = $2 * unit <= most * 1.005 } END { exit !found }' err
}
run common --kind cuckoo --memory 1M --stats a b
check "cuckoo --memory: all lines of A are found" \
  test -z "$(comm -13 <(sort out) expected.sorted)"
check "cuckoo --memory says beforehand what it buys" grep -q '^tamis: 1.00 MiB for .*rate of' err
check "cuckoo --memory keeps to it" in_memory 1048576
run common --kind cuckoo --memory 4M --capacity 5k --stats a b
check "cuckoo --memory: grows within it" grep -q '^filter .* growth steps$' err
check "cuckoo --memory: keeps to it while it grows" in_memory $((4 << 20))
check "cuckoo --memory: the rate does not rise" test -z "$(grep 'rate rose' err)"
check "cuckoo --memory: grown, all lines of A are found" \
  test -z "$(comm -13 <(sort out) expected.sorted)"
for memory in $(seq 100 150 1000); do
  run common --kind cuckoo --memory "${memory}k" --capacity 50k --stats a a
  { [ "$status" -eq 0 ] && cmp -s out a && in_memory "${memory}000"; } || break
done
check "cuckoo --memory: any size holds the lines planned for" test "$memory" -eq 1000
run common --kind cuckoo --memory 50KB --capacity 31k a others
check "cuckoo --memory: more lines than memory holds" test "$status" -eq 1 -a ! -s out
head -n 31000 a >a.31k
run common --kind cuckoo --memory 50KB --capacity 31k a.31k others
wrong=$(wc -l <out)
guess=$(gawk '/^written by mistake/ { print $5 }' err)
check "cuckoo --memory: $wrong wrong lines, $guess said" \
  gawk -v w="$wrong" -v g="$guess" 'BEGIN { exit !(w > 100 && g > 0.8 * w && g < 1.25 * w) }'

for memory in 1 1K 40K; do
  run common --kind cuckoo --memory $memory a b
  check "cuckoo --memory $memory: too small for any rate" one_line 1 "cannot put"
  check "... nothing written" silent_output
done
too_many_lines 1
run dedup --kind cuckoo --fpp 1e-12 paths
check "a rate that a cuckoo filter cannot give" one_line 1 "lower than a cuckoo filter can give"
check "... nothing written" silent_output

# ---- errors: one line, and the right status ----

usage() {
  local text=$1
  shift
  run "$@"
  check "usage: tamis $*" one_line 2 "$text"
}
usage "command is missing"
usage "no command 'sort'" sort
usage "unrecognized option '--frob'" dedup --frob
usage "invalid option -- 'Z'" dedup -Z
usage "requires an argument" dedup --threads
usage "doesn't allow an argument" dedup --stats=1 paths
for bad in -1 x 1x '' ' 1' 1025 99999999999999999999 0x10 1.5; do
  usage "--threads: '$bad'" dedup --threads="$bad" paths
done
for bad in 0 -5 x 5x 5kk '' 99999999999999999999 2T 999999999999G +1 1.5 .0001k . .M 1.5.5M 1e 1e999 0x10 inf nan; do
  usage "--capacity: '$bad'" dedup --capacity="$bad" paths
done
for bad in 0 1 1.5 -0.1 nan inf 1e 0.1x '' 1e-999 0x1p-3 +0.1 ' 0.1'; do
  usage "--fpp: '$bad'" dedup --fpp="$bad" paths
done
for bad in 0 0.9 -1M 1X 1MM 1KiBB 5iB '' 99999999999T 16777216T 1e400 . nan; do
  usage "--memory: '$bad'" common --memory="$bad" a b
done
for bad in quotient Cuckoo cuckoos 'cuckoo ' ''; do
  usage "--kind: '$bad'" dedup --kind "$bad" paths
done
usage "requires an argument" common a b --kind
usage "two files" common
usage "two files" common a
usage "only one of the files" common - -
usage "only one of the files" common - a -

run dedup paths nowhere
check "a file that does not exist" one_line 1 "cannot open 'nowhere': No such file or directory"
check "... is found before anything is written" silent_output
echo precious >result
run dedup -o result paths nowhere
check "... and before the output is emptied" grep -q precious result
run dedup $exact "$(printf 'no\nwhere\033[m')"
check "a name with a newline makes no second line" one_line 1 "cannot open 'no?where?[m'"
run dedup $exact paths .
check "a directory" one_line 1 "cannot open '.': Is a directory"
run dedup <.
check "a directory as standard input" one_line 1 "Is a directory"
run common $exact a .
check "a directory as B" one_line 1 "Is a directory"
run dedup <&-
check "a closed standard input" one_line 1 "cannot open 'standard input': Bad file descriptor"
"$tamis" dedup $exact paths >&- 2>err
status=$?
check "a closed standard output" one_line 1 "cannot write 'standard output'"
"$tamis" dedup $exact paths >out 2>&-
status=$?
: >err
check "a closed standard error" same_as paths.expected
"$tamis" dedup -o result nowhere 2>&-
check "a closed standard error: status 1" test $? -eq 1
run dedup --fpp 1e-18 --capacity 1M paths
check "a rate that 64-bit hashes cannot give" one_line 1 "lower than a Bloom filter can give"
for name in nowhere/result '' new/ .; do
  run dedup -o "$name" paths
  check "an output that cannot be made: '$name'" one_line 1 "cannot write '$name'"
done
if [ "$(id -u)" -ne 0 ]; then
  echo secret >secret
  chmod 0 secret
  run dedup $exact paths secret
  check "a file that may not be read" one_line 1 "cannot open 'secret': Permission denied"
else
  skip "a file that may not be read" "root may read all"
fi

# ---- compressed input is named ----

# refused FORMAT COMMAND: each way to pass the file `compressed` ends with one line that names both.
refused() {
  run dedup $exact compressed
  one_line 1 "'compressed' is compressed by $1: use '$2 compressed |" && silent_output || return
  run dedup $exact paths compressed # is found before anything is written
  one_line 1 "$1" && silent_output || return
  run dedup $exact <compressed
  one_line 1 "standard input is compressed by $1: put '$2 |'" && silent_output || return
  "$tamis" dedup $exact --threads 3 - <(cat compressed) < <(cat newlines) >out 2>err
  status=$?
  one_line 1 "' is compressed by $1: use '$2 " || return
  run common $exact <(cat compressed) paths
  one_line 1 "$1" && silent_output
}
gzip -c paths >compressed
check "compressed by gzip" refused gzip zcat
printf '\050\265\057\375\044\000\001\000\000' >compressed
check "compressed by zstd" refused zstd zstdcat
printf '\3757zXZ\000\000\004\346\326' >compressed
check "compressed by xz" refused xz xzcat
printf 'BZh91AY&SY\027\162' >compressed
check "compressed by bzip2" refused bzip2 bzcat
printf 'LZIP\001\014\000' >compressed
check "compressed by lzip" refused lzip 'lzip -dc'
printf 'PK\003\004\024\000' >compressed
check "compressed by zip" refused zip funzip
printf '\004\042\115\030\144\100' >compressed
check "compressed by lz4" refused lz4 lz4cat
printf '\037\235\220\141' >compressed
check "compressed by compress" refused compress zcat
printf '\037\213\nBZh9 text\n7zXZ\n' >expected
run dedup $exact expected
check "what only resembles a compressed file is read" same_as expected
gzip -c paths >compressed
(head -c 10 >skipped; "$tamis" dedup $exact >out 2>err) <compressed
status=$?
check "only the beginning of a file decides" test "$status" -eq 0

read_error 1
run common $exact /proc/self/mem b
check "a read error in A" one_line 1 "cannot read '/proc/self/mem'"
check "... writes nothing" silent_output

cp paths same
run dedup -o same paths same
check "output to an input is refused" one_line 1 "input and output at once"
check "... which is untouched" cmp -s same paths
ln -s same link
run common -o link a same
check "... by another name as well" one_line 1 "input and output at once"
check "... untouched" cmp -s same paths
"$tamis" dedup same >>same 2>err
status=$?
check "... and by redirection" one_line 1 "input and output at once"
check "... untouched as well" cmp -s same paths
"$tamis" dedup <same >>same 2>err
status=$?
check "... and when both are redirected" one_line 1 "input and output at once"

full_disk 1
large_file 1
run dedup -o /dev/full paths
check "a full disk under --output" one_line 1 "cannot write '/dev/full': No space left on device"
"$tamis" dedup $exact --stats paths >out 2>/dev/full
status=$?
check "a full disk under --stats" test "$status" -eq 1
check "... the lines are written" cmp -s out paths.expected
"$tamis" --help >/dev/full 2>err
status=$?
check "a full disk under --help" one_line 1 "No space left on device"
closed_pipe 1
if ! { (ulimit -v 150000; "$tamis" --version) >version; } 2>/dev/null; then
  skip "a line that memory does not hold" "sanitizers reserve address space"
else
  head -c 200000000 /dev/zero |
    (ulimit -v 150000; "$tamis" dedup $exact --capacity 1000 numbers - >out 2>err)
  status=$?
  check "a line that memory does not hold" one_line 1 "out of memory for a line of more than"
  check "... lines before it are written" cmp -s out numbers
  (ulimit -v 150000; "$tamis" dedup --capacity 1G numbers >out 2>err)
  status=$?
  check "a filter that memory does not hold" one_line 1 "out of memory"
  (ulimit -v 150000; "$tamis" dedup --kind cuckoo --capacity 1G numbers >out 2>err)
  status=$?
  check "a cuckoo filter that memory does not hold" one_line 1 "out of memory"
  # A thread takes 8 MiB of stack, so only a few of these start.
  (ulimit -v 150000; "$tamis" dedup $exact --threads 64 --capacity 400k fewer >out 2>err)
  status=$?
  sort -n -o out out
  check "threads that do not start are done without" within fewer $hidden 0
fi

# ---- help, version ----

for words in "--help" "dedup --help" "common --help" "size --help" "dedup --usage" "--version" "dedup -V"; do
  # shellcheck disable=SC2086
  run $words
  check "tamis $words" test "$status" -eq 0 -a -s out -a ! -s err
done
run dedup --help
check "dedup --help names the command" grep -q '^Usage: tamis dedup ' out
check "dedup --help has examples" grep -q 'tamis dedup access.log' out

echo "1..${number:?}"
[ "${failures:?}" -eq 0 ]
