#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests of the command-line program against exact tools: test_tool.sh PATH-TO-TAMIS [short]
# Without TAMIS_LONG in the environment, or with "short", its lines are shorter.
# Prints "ok N - name" or "not ok N - name" for each, and exits 1 if any failed.
# shellcheck disable=SC2002,SC2094  # pipes are tested, and outputs that are inputs
megabytes=100
[ "${TAMIS_LONG:-}" ] && [ "${2:-}" != short ] || megabytes=10
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

# ---- input ----

printf '' >empty
printf '\n\n\n' >newlines
printf 'one\ntwo\none' >unended
printf 'a\r\na\nb\r\na\r\n' >crlf
printf 'a\0b\na\0c\na\0b\n\0\na\n\0\n' >nul
printf '\377\376\n\303\n\377\376\nx\n' >bytes
head -c ${megabytes}000000 /dev/zero | tr '\0' 'x' >huge
{ cat huge; echo; echo short; cat huge; echo; echo short; cat huge; } >huge.lines
sort -R --random-source=numbers paths | head -n 50000 >a
{ cat paths; seq 1 100000; cat bytes newlines unended; } >b
grep -Fxf a b >in_both
head -n 50000 numbers >fewer

# ---- dedup and common against exact tools ----

for kind in bloom cuckoo; do
  # shellcheck disable=SC2206  # $cuckoo is two words
  case $kind in bloom) of=("$exact") some=0 ;; cuckoo) of=($cuckoo) some=2 ;; esac
  try "$kind: one thread keeps the order of first appearance" within paths.expected "$some" 0 : dedup "${of[@]}" paths
  try "$kind: standard input from a pipe" within paths.expected "$some" 0 : dedup "${of[@]}" < <(cat paths)
  for file in empty newlines unended crlf bytes; do
    exact_dedup $file >expected
    try "$kind: input '$file'" same_as expected : dedup "${of[@]}" $file
  done
  try "$kind: common writes what grep -Fxf writes, in its order" within in_both 0 "$some" : common "${of[@]}" a b
  try "$kind: common, far more lines in A than expected" within in_both 0 "$some" : common "${of[@]}" --capacity 20 a b
  for capacity in 1 10 1k; do
    try "$kind: capacity $capacity grows to 50000" within fewer "$some" 0 : dedup "${of[@]}" --capacity $capacity fewer fewer
  done
done
try "standard input from a file" same_as paths.expected : dedup $exact <paths
tail -n +2 paths | exact_dedup >expected
(read -r _ && "$tamis" dedup $exact $exact >out 2>err) <paths
status=$?
check "standard input that was read from already" same_as expected
try "a pipe named -" same_as paths.expected : dedup $exact - < <(cat paths)
slowly() { for i in 1 2 3 4 5; do printf 'slow %d\nsl' $((i % 2)); sleep 0.02; printf 'ow\n'; done; }
printf 'slow 1\nslow\nslow 0\n' >expected
try "a pipe that is written in pieces" same_as expected : dedup $exact < <(slowly)
cat paths.expected numbers >expected
try "named pipes" same_as expected : dedup $exact <(cat paths) <(cat numbers)
printf 'a\0b\na\0c\n\0\na\n' >expected
try "NUL bytes" same_as expected : dedup $exact nul
printf 'one\ntwo\n\n' >expected
try "the last line of a file without newline is not glued to the next file" same_as expected : \
  dedup $exact unended newlines unended empty
printf 'one\ntwo\n' >expected
try "names after -- and an empty standard input" same_as expected : dedup $exact -- ./unended - <empty
{ cat huge; echo; echo short; } >expected
try "lines of $megabytes MB from a pipe" same_as expected : dedup $exact --quiet < <(cat huge.lines)
for threads in 1 4; do
  run dedup $exact --threads $threads huge.lines
  [ $threads -eq 1 ] || sort -o out out
  [ $threads -eq 1 ] || sort -o expected expected
  check "lines of $megabytes MB with $threads thread(s)" same_as expected
done
rm -f huge huge.lines expected out
for i in $(seq 1500); do echo "$((i % 700))" >"tiny.$i"; done
seq 0 699 | sort >expected
by=sorted try "more files than may be open at once" same_as expected : dedup $exact tiny.*
exact_dedup /proc/self/limits >expected
try "a file of /proc, whose size is 0" same_as expected : dedup $exact /proc/self/limits
mkfifo fifo
in_background 'cat paths >fifo'
try "a FIFO" same_as paths.expected : dedup $exact fifo

run dedup paths
check "the default rate: $(($(wc -l <paths.expected) - $(wc -l <out))) missing, 0 or 1 are likely" \
  test "$(wc -l <out)" -ge $(($(wc -l <paths.expected) - 4))
gawk 'BEGIN { for (i = 0; i < 200000; i++) print "line " i % 100000 }' >many
grow_chain 1

# ---- --stats ----

run dedup $exact --stats paths
check "--stats: status 0" test "$status" -eq 0
for figure in "lines read *200000$" "distinct written *$(wc -l <paths.expected)$" "bytes read *$(wc -c <paths) " \
  "duplicates dropped *$((200000 - $(wc -l <paths.expected)))$" 'filter .* in 1 level$'; do
  check "--stats: $figure" grep -q "^$figure" err
done
try "--stats of nothing" grep -q '^lines read *0$' err : dedup --stats --threads 2 empty
try "--stats tells of the levels" grep -q ' in [2-9] levels' err : dedup --capacity 1k --stats many
run dedup --kind cuckoo --capacity 10 --fpp 0.01 --stats numbers
missing=$((300000 - $(wc -l <out)))
check "cuckoo: the rate is kept from 10 to 300000: $missing missing" test "$missing" -le 3300
check "cuckoo: --stats tells of the growth" grep -q '^filter .*iB after [0-9]* growth steps$' err
check "cuckoo: --stats tells a rate within the one asked" gawk '/^false-positive rate/ { exit !($3 > 0 && $3 <= $5) }' err
try "cuckoo: no growth where an estimate is good" grep -q '^filter .* in 1 level$' err : dedup --kind cuckoo --stats numbers

# ---- common ----

try "common: A from a pipe" same_as in_both : common $exact - b < <(cat a)
try "common: B from a pipe" same_as in_both : common $exact a - < <(cat b)
try "common: nothing in A" same_as empty : common $exact empty b
try "common: nothing in B" same_as empty : common $exact b empty
printf '\n\n\n' >expected
try "common: empty lines" same_as expected : common $exact newlines b
printf 'one\ntwo\none\n' >expected
try "common: last lines without newline" same_as expected : common $exact unended b

# More than two files: the last one's lines that are in all others.
gawk 'NR % 3' numbers >c1
gawk 'NR % 5' numbers | sort -R --random-source=numbers >c2
{ gawk 'NR % 7' numbers; gawk 'NR % 7' numbers; } >c3
{ cat numbers; echo other; head -n 100 numbers; } >c4
grep -Fxf c1 c4 | grep -Fxf c2 | grep -Fxf c3 >expected.all
try "common: four files" same_as expected.all : common $exact c1 c2 c3 c4
sort expected.all >expected.all.sorted
by=sorted try "common: four files, one of them standard input, several threads" same_as expected.all.sorted : \
  common $exact --threads 4 c1 - c3 c4 < <(cat c2)
try "common: four files, more lines than expected" within expected.all 0 2 : common --fpp 1e-9 --capacity 20 c1 c2 c3 c4
try "common: four files, cuckoo" within expected.all 0 2 : common --kind cuckoo --fpp 2e-7 c1 c2 c3 c4
try "common: nothing in one of several" same_as empty : common $exact c1 empty c4
# The rates of all filters add up to the one asked: each line of `other` is in all files but one.
seq 1 100000 >in
seq 100001 300000 >out.of
cat in out.of >"more"
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
too_many_lines 1

# ---- errors: one line, and the right status ----

usage "command is missing"
usage "no command 'sort'" sort
usage "unrecognized option '--frob'" dedup --frob
usage "invalid option -- 'Z'" dedup -Z
usage "requires an argument" dedup --threads
usage "requires an argument" common a b --kind
usage "doesn't allow an argument" dedup --stats=1 paths
usage "from 1 to 64" dedup --window 65 paths
usage "needs --window" dedup --period 3 paths
usage "--ttl needs --window" dedup --ttl 3 paths
usage "--kind bloom or cuckoo" dedup --window 3 --kind counting paths
while read -r option values; do
  eval "values=($values)"
  for bad in "${values[@]}"; do
    usage "--$option: '$bad'" dedup "--$option=$bad" paths
  done
done <<'END'
threads -1 x 1x '' ' 1' 1025 99999999999999999999 0x10 1.5
capacity 0 -5 x 5x 5kk '' 99999999999999999999 2T 999999999999G +1 1.5 .0001k . .M 1.5.5M 1e 1e999 0x10 inf nan
fpp 0 1 1.5 -0.1 nan inf 1e 0.1x '' 1e-999 0x1p-3 +0.1 ' 0.1'
memory 0 0.9 -1M 1X 1MM 1KiBB 5iB '' 99999999999T 16777216T 1e400 . nan
kind quotient Cuckoo cuckoos 'cuckoo ' ''
END
usage "two files" common
usage "two files" common a
usage "only one of the files" common - -
usage "only one of the files" common - a -

try "a file that does not exist" one_line 1 "cannot open 'nowhere': No such file or directory" : dedup paths nowhere
check "... is found before anything is written" silent_output
echo precious >result
try "... and before the output is emptied" grep -q precious result : dedup -o result paths nowhere
bad_name=$(printf 'no\nwhere\033[m')
try "a name with a newline makes no second line" one_line 1 "cannot open 'no?where?[m'" : dedup $exact "$bad_name"
try "a directory" one_line 1 "cannot open '.': Is a directory" : dedup $exact paths .
try "a directory as standard input" one_line 1 "Is a directory" : dedup <.
try "a directory as B" one_line 1 "Is a directory" : common $exact a .
try "a closed standard input" one_line 1 "cannot open 'standard input': Bad file descriptor" : dedup <&-
"$tamis" dedup $exact paths >&- 2>err
status=$?
check "a closed standard output" one_line 1 "cannot write 'standard output'"
"$tamis" dedup $exact paths >out 2>&-
status=$?
: >err
check "a closed standard error" same_as paths.expected
"$tamis" dedup -o result nowhere 2>&-
check "a closed standard error: status 1" test $? -eq 1
for rate in "Bloom --fpp 1e-18 --capacity 1M" "cuckoo --kind cuckoo --fpp 1e-12"; do
  # shellcheck disable=SC2086
  try "a rate that a ${rate%% *} filter cannot give" one_line 1 "lower than a ${rate%% *} filter can give" : \
    dedup ${rate#* } paths
  check "... nothing written" silent_output
done
for name in nowhere/result '' new/ .; do
  try "an output that cannot be made: '$name'" one_line 1 "cannot write '$name'" : dedup -o "$name" paths
done
if [ "$(id -u)" -ne 0 ]; then
  echo secret >secret
  chmod 0 secret
  try "a file that may not be read" one_line 1 "cannot open 'secret': Permission denied" : dedup $exact paths secret
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
  run dedup $exact --threads 3 - <(cat compressed) < <(cat newlines)
  one_line 1 "' is compressed by $1: use '$2 " || return
  run common $exact <(cat compressed) paths
  one_line 1 "$1" && silent_output
}
while read -r format command bytes; do
  printf '%b' "$bytes" >compressed
  check "compressed by $format" refused "$format" "${command//_/ }"
done <<'END'
gzip zcat \0037\0213\0010\0000\0000\0000
zstd zstdcat \0050\0265\0057\0375\0044\0000\0001\0000\0000
xz xzcat \03757zXZ\0000\0000\0004\0346\0326
bzip2 bzcat BZh91AY&SY\0027\0162
lzip lzip_-dc LZIP\0001\0014\0000
zip funzip PK\0003\0004\0024\0000
lz4 lz4cat \0004\0042\0115\0030\0144\0100
compress zcat \0037\0235\0220\0141
END
printf '\037\213\nBZh9 text\n7zXZ\n' >expected
try "what only resembles a compressed file is read" same_as expected : dedup $exact expected
gzip -c paths >compressed
(head -c 10 >skipped; "$tamis" dedup $exact >out 2>err) <compressed
status=$?
check "only the beginning of a file decides" test "$status" -eq 0

# ---- errors of input and output ----

read_error 1
try "a read error in A" one_line 1 "cannot read '/proc/self/mem'" : common $exact /proc/self/mem b
check "... writes nothing" silent_output
cp paths same
try "output to an input is refused" one_line 1 "input and output at once" : dedup -o same paths same
ln -s same link
try "... by another name as well" one_line 1 "input and output at once" : common -o link a same
onto_itself() { "$tamis" "$@" >>same 2>err; status=$?; }
by=onto_itself try "... and by redirection" one_line 1 "input and output at once" : dedup same
by=onto_itself try "... and when both are redirected" one_line 1 "input and output at once" : dedup <same
check "... and stays as it was" cmp -s same paths
cp paths whole.tamis-unfinished-0
ln -s whole link.whole
try "what a killed run has left is no input for the same output" one_line 1 "would be removed: rename it" : \
  dedup -o link.whole a ./whole.tamis-unfinished-0
check "... and stays as it was" cmp -s whole.tamis-unfinished-0 paths
try "... but for another one" ends_by 0 : dedup -o who whole.tamis-unfinished-0
try "... nor for the same state" one_line 1 "would be removed: rename it" : dedup --state whole whole.tamis-unfinished-0
try "... nor is it the output" one_line 1 "would be removed: rename it" : \
  dedup --state whole -o whole.tamis-unfinished-0 a
check "... and stays, too" cmp -s whole.tamis-unfinished-0 paths
run build -o list.tamis a && cp list.tamis both.tamis-unfinished-0
try "... nor for the same union" one_line 1 "would be removed: rename it" : \
  merge -o both list.tamis both.tamis-unfinished-0
for use in query "build --like" "dedup --state"; do
  # shellcheck disable=SC2086 # words
  try "... nor the filter of $use" grep -q "would be removed: rename it" err : $use both.tamis-unfinished-0 -o both a
  check "... as it was" cmp -s list.tamis both.tamis-unfinished-0
done
run dedup --shared each.tamis-unfinished-0 a
try "... nor a shared one" one_line 1 "would be removed: rename it" : dedup --shared each.tamis-unfinished-0 -o each a
name=$(printf 'n%.0s' $(seq 200))
cp paths "$name.tamis-unfinished-0"
try "... nor, where names are long, one with the beginning of the name" \
  one_line 1 "would be removed: rename it" : dedup -o "${name}n" "$name.tamis-unfinished-0"

full_disk 1
large_file 1
try "a full disk under --output" one_line 1 "cannot write '/dev/full': No space left on device" : dedup -o /dev/full paths
"$tamis" dedup $exact --stats paths >out 2>/dev/full
status=$?
check "a full disk under --stats" test "$status" -eq 1
check "... the lines are written" cmp -s out paths.expected
by=to_full try "a full disk under --help" one_line 1 "No space left on device" : --help
closed_pipe 1
with_150_megabytes() { (ulimit -v 150000; "$tamis" "$@" >out 2>err); status=$?; }
if ! with_150_megabytes --version 2>/dev/null || [ $status -ne 0 ]; then
  skip "a line that memory does not hold" "sanitizers reserve address space"
else
  by=with_150_megabytes
  try "a line that memory does not hold" one_line 1 "out of memory for a line of more than" : \
    dedup $exact --capacity 1000 numbers - < <(head -c 200000000 /dev/zero)
  check "... lines before it are written" cmp -s out numbers
  for kind in bloom cuckoo; do
    try "a $kind filter that memory does not hold" one_line 1 "out of memory" : dedup --kind $kind --capacity 1G numbers
  done
  # A thread takes 8 MiB of stack, so only a few of these start.
  with_150_megabytes dedup $exact --threads 64 --capacity 400k fewer
  sort -n -o out out
  check "threads that do not start are done without" within fewer $hidden 0
  by=run
fi

# ---- help, version ----

for words in "--help" "dedup --usage" "--version" "dedup -V"; do
  # shellcheck disable=SC2086
  run $words
  check "tamis $words" test "$status" -eq 0 -a -s out -a ! -s err
done
try "dedup --help names the command" grep -q '^Usage: tamis dedup ' out : dedup --help
check "dedup --help has examples" grep -q 'tamis dedup access.log' out

finish
