#!/bin/bash
# SPDX-License-Identifier: MIT
# tamis index, which and grep: indexes of many files, which may be compressed.
#
#   test_index.sh TAMIS
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

# ---- files of logs: each line has an id of its own, and each file an id of the next one's, too ----

files=12 lines=300
make_log() {
  awk -v file="$1" -v lines=$lines 'BEGIN {
    for (i = 0; i < lines; i++)
      printf "2026-11-%02d host app[%d]: request id=%08x%08x took %d ms\n",
             file, i, file * 7919, i * 104729 + 1, i % 97
    printf "see id=%08x%08x of tomorrow, and id=%08x%08x\n", (file + 1) * 7919, 1, file * 7919, 1
  }'
}
id_of() { printf '%08x%08x' $(($1 * 7919)) $(($2 * 104729 + 1)); }
for i in $(seq 1 $files); do make_log "$i" >"$i.log"; done
gzip 2.log 5.log 8.log
kinds="gz"
if command -v zstd >/dev/null; then zstd -q --rm 3.log 6.log && kinds="gz zst"; fi
if command -v xz >/dev/null; then xz 4.log && kinds="$kinds xz"; fi
names=$(printf '%s\n' *.log* | sort -V | tr '\n' ' ')
# shellcheck disable=SC2086
unpacked() { for name in $names; do
  case $name in
  *.zst) zstdcat "$name" ;; *.xz) xzcat "$name" ;; *.gz) zcat "$name" ;; *) cat "$name" ;;
  esac | sed "s/^/$name:/"
done; }
# shellcheck disable=SC2086
run index --regex '[0-9a-f]{16}' --fpp 0.0001 -o ids --stats $names
check "an index of $files files ($kinds)" figure_is files $files
check "all were read" figure_is "files read" $files
check "the keys are the matches" figure_is keys $((files * (lines + 1)))
check "others cannot read it" test "$(stat -c %a ids)" = 600

# ---- grep ----

# as_grep ID...: grep through the index writes what grep through all files does.
as_grep() {
  local patterns=()
  for id in "$@"; do patterns+=(-e "$id"); done
  run grep ids "$@"
  unpacked | grep -aF "${patterns[@]}" >expected
  local wanted=$?
  [ "$status" -eq $wanted ] && [ ! -s err ] && cmp -s out expected && return
  echo "# status $status, expected $wanted; $(wc -l <out) lines, not $(wc -l <expected): $(head -c 200 err)"
  return 1
}
check "grep finds an id of a plain file" as_grep "$(id_of 1 17)"
check "grep finds an id of a gz file" as_grep "$(id_of 5 0)"
check "grep finds an id of a zst file" as_grep "$(id_of 6 299)"
check "grep finds an id of an xz file" as_grep "$(id_of 4 5)"
check "grep finds an id in two files" as_grep "$(id_of 9 0)"
check "grep finds several ids" as_grep "$(id_of 3 4)" "$(id_of 11 9)" 0123456789abcdef
check "grep finds nothing" as_grep 0123456789abcdef
for i in $(seq 1 $files); do
  as_grep "$(id_of "$i" $((i * 13)))" || missed=$i
done
check "grep finds an id of each file" test -z "${missed:-}"
try "which names both" output_is "$(printf '8.log.gz\n9.log')" : which ids "$(id_of 9 0)"
run which ids "$(id_of 2 1)" "$(id_of 12 1)"
check "which names the files of two ids" output_is "$(printf '2.log.gz\n12.log')"
try "which names none" ends_by 1 : which ids 0123456789abcdef
try "which -0 ends each name with a zero" cmp -s out <(printf '8.log.gz\0009.log\0') : which -0 ids "$(id_of 9 0)"
try "grep -l names each file once" output_is "$(printf '8.log.gz\n9.log')" : grep -l ids "$(id_of 9 0)" "$(id_of 9 3)"
try "grep -c counts lines" output_is "$(printf '8.log.gz:1\n9.log:2')" : grep -c ids "$(id_of 9 0)"
try "a part of a key is no key" ends_by 1 : grep ids "$(id_of 9 0 | cut -c 1-15)"

# ---- changes ----

# The size, the time and the name of the file stay as they were.
id=$(id_of 7 3)
touch -r 7.log before
sed "s/$id/ffffffffffffffff/" 7.log >changed && cat changed >7.log && touch -r before 7.log
try "a file is read whose contents alone have changed" output_is 7.log : which ids ffffffffffffffff
run grep ids ffffffffffffffff
check "and its line is found" test "$(wc -l <out)" -eq 1
cp 7.log copy && touch -r before copy && mv copy 7.log
try "a file is read that another one has replaced" output_is 7.log : which ids ffffffffffffffff
try "the index reads it again" figure_is "files read" 1 : index -o ids --stats
try "and knows it" ends_by 1 : which ids 0123456789abcdef
try "with what it holds now" output_is 7.log : which ids ffffffffffffffff
make_log 13 >13.log
try "a new file is added once" figure_is files 13 : index -o ids --stats 13.log 1.log 13.log
check "and is read alone" figure_is "files read" 1
rm 13.log
run grep ids "$(id_of 9 3)"
check "a file that is missing is an error" one_line 2 "cannot open '13.log': No such file or directory"
check "after what was found" grep -q "^9.log:" out
try "the index drops it" figure_is "files dropped" 1 : index -o ids --stats
try "and does not name it any more" ends_by 1 : which ids "$(id_of 13 3)"

# While a file is indexed, it changes: whatever the index has, the line is found.
: >moving
for i in $(seq 1 5); do
  "$tamis" index -o moving.index moving 12.log >/dev/null 2>&1 &
  reader=$!
  for j in $(seq 1 20); do echo "line $i $j" >>moving; done
  wait $reader
  "$tamis" grep moving.index "line $i 20" >out 2>err || lost=$i
done
check "a line that is written while the file is indexed is found" test -z "${lost:-}"

# ---- lines and fields ----

printf 'one\n\ntwo words\n\ttab and  three \n' >1.txt
printf 'no newline' >2.txt
: >3.txt
try "whole lines are keys" ends_by 0 : index -o lines 1.txt 2.txt 3.txt
try "and are found" output_is "$(printf '1.txt:two words\n2.txt:no newline')" : grep lines 'two words' 'no newline'
try "a word is no line" ends_by 1 : grep lines two
try "an empty line is a key" output_is 1.txt: : grep lines ''
run index --field 2 -o fields 1.txt 2.txt
run grep fields and newline words
check "fields are found" output_is "$(printf '1.txt:two words\n1.txt:\ttab and  three \n2.txt:no newline')"
try "a field of another number is not" ends_by 1 : grep fields one
run index -o alone 1.txt
try "lines of a single file have no name before them" output_is one : grep alone one
seq 3000 | sed 's/.*/one/' >grown.txt
run index -o grown.index grown.txt
cp grown.txt before
(ulimit -f 100; exec "$tamis" grep grown.index one) >>grown.txt 2>err
status=$?
check "lines are not appended to their own file" one_line 2 "'grown.txt' is input and output at once"
check "... which stays as it was" cmp grown.txt before
printf 'a\0b\nc\0d\n' >zeros.txt
run index --regex '[a-d]' -o zeros zeros.txt
try "bytes of 0 are bytes" cmp -s out <(printf 'c\0d\n') : grep zeros d
printf 'ab-cd x12 x345\n' >words.txt
run index --regex 'x[0-9]*|^a|b' -o words words.txt
for key in x12 x345 a b; do run grep words $key && [ "$status" -eq 0 ] || lost_key=$key; done
check "every match of a line is a key" test -z "${lost_key:-}"

# ---- threads, and how little it takes ----

# shellcheck disable=SC2086
try "four threads index" ends_by 0 : index --threads 4 --regex '[0-9a-f]{16}' --fpp 0.0001 -o ids4 $names
run grep ids4 "$(id_of 9 0)" && cp out by4
try "and answer the same" same_as by4 : grep ids "$(id_of 9 0)"
seq -f '%020g a line of a hundred bytes, as those of a log are, with some words that say what has happened' 100000 >large
run index -o large.index large
check "an index of one key in 100 bytes takes less than 2 %" \
  test $((50 * $(stat -c %s large.index))) -lt "$(stat -c %s large)"
# A filter is made for as many keys as its file has: each of them is in, whatever their number is.
counts="$(seq 40) 63 64 65 100 255 256 257 511 512 513 1000 4095 4096 4097 9999 30000 65537 100000"
for n in $counts; do seq -f "key %.0f of $n" "$n" >"keys.$n"; done
try "files of 1 to 100000 keys" ends_by 0 : index -o counts --fpp 0.1 keys.*
/usr/bin/python3 - <<'END'
import struct

data = open("counts", "rb").read()
size, = struct.unpack_from("<Q", data, 36)
head, filters = data[52:52 + size], data[52 + size:]
at, place = 48 + struct.unpack_from("<Q", head, 16)[0], 0
while at < len(head):
    length, = struct.unpack_from("<Q", head, at)
    name = head[at + 8:at + 8 + length].decode()
    left, = struct.unpack_from("<Q", head, at + 8 + length + 40)
    at += length + 56
    with open(name + ".tamis", "wb") as file:
        while left > 0:
            some, zeros = struct.unpack_from("<QQ", filters, place)
            file.write(filters[place + 16:place + 16 + some] + bytes(zeros))
            place, left = place + 16 + some, left - 16 - some
END
for n in $counts; do
  run query "keys.$n.tamis" "keys.$n"
  same_as "keys.$n" || unfound="${unfound:-} $n"
done
check "each key is in the filter of its file" test -z "${unfound:-}"

# As docs/use/command.md says: so many bits for each key, and 260 to 720 bytes for each file.
rest_of() { # RATE BITS N
  seq -f "line %.0f" "$3" >size.1
  for i in $(seq 2 10); do cp size.1 "size.$i"; done
  rm -f sizes
  "$tamis" index --fpp "$1" -o sizes size.* && echo $((($(stat -c %s sizes) - $3 * $2 / 8) / 10))
}
for n in 0 1 10 100 1000 10000; do
  for rest in $(rest_of 0.01 103 "$n") $(rest_of 0.001 160 "$n"); do
    [ "$rest" -ge 260 ] && [ "$rest" -le 720 ] || outside="${outside:-} $n:$rest"
  done
done
check "an index takes what the document says${outside:-}" test -z "${outside:-}"

# ---- files that are added ----

mkdir added
for i in $(seq 40); do echo "added $i" >"added/$i"; done
for i in 1 2 3; do # an index of 30 files in three parts
  run index -o grown $(seq -f 'added/%.0f' $((10 * i - 9)) $((10 * i)))
done
cp grown before
run index -o grown added/31
check "a file is added at the end" cmp -s <(tail -c +37 before) <(tail -c +37 grown | head -c $(($(stat -c %s before) - 36)))
check "... and takes no more than in a new index" test $(($(stat -c %s grown) - $(stat -c %s before))) -le 720
# all_found INDEX N: each of the first N files is found.
all_found() {
  local i lost=
  for i in $(seq "$2"); do
    run grep "$1" "added $i" && [ "$(cat out)" = "added/$i:added $i" ] && [ ! -s err ] || lost="$lost $i"
  done
  [ -z "$lost" ] || { echo "# lost:$lost; $(head -c 200 err)"; return 1; }
}
check "all are found" all_found grown 31
cp grown before
try "nothing is written if nothing is new" cmp -s grown before : index -o grown added/7
echo "added 7 again" >>added/7
try "--add: no other file is looked at" figure_is "files read" 0 : index --add -o grown --stats added/7
try "one that has changed is read again" figure_is "files read" 2 : index -o grown --stats added/32
check "... with one that is added" figure_is files 32
try "... and found as it is now" output_is added/7 : which grown "added 7 again"
for i in $(seq 60); do echo "change $i" >>added/9 && "$tamis" index -o grown; done
run index -o anew $(seq -f 'added/%.0f' 32)
check "what is of no use goes" test "$(stat -c %s grown)" -le $((3 * $(stat -c %s anew)))
check "... and all is there" all_found grown 32
try "... as it is now" output_is added/9 : which grown "change 60"
rm added/32
try "one that is gone goes" figure_is files 31 : index -o grown --stats
check "... and no other one" all_found grown 31
cp grown before
{ cat before && head -c 3000 /dev/urandom; } >longer
check "what a killed run has left at the end does no harm" all_found longer 31
run index -o longer added/33 added/34
try "... nor to the next run" output_is added/34 : which longer "added 34"
check "... which goes on before it" all_found longer 31
(ulimit -f 8; exec env --default-signal "$tamis" index -o grown added/35 paths) 2>err
status=$?
check "a disk that is full" one_line 1 "cannot write 'grown'"
check "... leaves what there was" all_found grown 31
# Killed at any write, the index has the files that it had, and takes others afterwards.
if strace_runs; then
  for call in lseek write fsync; do
    for n in 1 2 3 4; do
      cp before killed
      strace -qq -o trace -e trace=$call -e inject=$call:signal=KILL:when=$n "$tamis" index -o killed added/36 added/37 2>/dev/null
      all_found killed 31 >why || torn_by="${torn_by:-} $call $n"
      run index -o killed added/38
      run which killed "added 38" && [ "$(cat out)" = added/38 ] || torn_by="${torn_by:-} $call $n then"
    done
  done
  check "killed at any write, it has what it had:${torn_by:-}" test -z "${torn_by:-}"
else
  skip "killed at any write, it has what it had" "strace does not run"
fi
# Runs wait for each other, also those that make the index; readers do not wait.
rm -f together
seq -f 'added/%.0f' 31 | xargs -n 2 -P 8 "$tamis" index -o together 2>err
check "eight runs at once add all files" all_found together 31
cp before read
(for i in $(seq 25); do "$tamis" index -o read added/$((33 + i % 7)) && touch "added/$((33 + i % 7))"; done) &
adder=$!
for i in $(seq 60); do
  run grep read "added $((i % 31 + 1))" && [ "$status" -eq 0 ] && [ ! -s err ] || unread="${unread:-} $i"
done
wait $adder
check "what is there is found while others add" test -z "${unread:-}"

# ---- lists and folders ----

printf 'a' >'a name'
printf 'b' >$'a\nname'
printf 'c' >' blank '
printf '%s\n\n%s\n' 'a name' ' blank ' >list
try "a list of names" figure_is files 2 : index -o listed --stats --files-from list
try "... which are whole lines" output_is ' blank ' : which listed c
printf '%s\0' 'a name' $'a\nname' >list0
try "a list whose names end with zeros" figure_is files 3 : index -o listed --stats -0 --files-from - <list0
try "... and have newlines" output_is $'a\nname' : which listed b
try "names of a list and of the command line" figure_is files 4 : index -o listed --stats --files-from list 1.txt
try "a list without names brings up to date" figure_is files 4 : index -o listed --stats --files-from /dev/null
mkdir -p tree/.hidden/deep tree/empty 'tree/a folder'
echo one >tree/1 && echo two >tree/.hidden/deep/2 && echo three >'tree/a folder/3' && gzip <tree/1 >tree/4.gz
ln -s ../1.txt tree/link && ln -s .. tree/up && mkfifo tree/fifo
echo outside >outside && ln -s tree linked
try "a folder is no file" one_line 1 "cannot open 'tree': Is a directory" : index -o tree.index 1.txt tree
rm tree.index
try "all files in a folder" figure_is files 4 : index -o tree/index --stats -r tree
run which tree/index one two three
check "... are named by their paths" output_is "$(printf '%s\n' tree/1 tree/4.gz 'tree/a folder/3' tree/.hidden/deep/2)"
try "INDEX in it is left out" figure_is files 4 : index -o tree/index --stats -r tree/
rm tree/index
printf '%s\n' outside tree 1.txt >given
try "folders in a list" figure_is files 6 : index -o tree.index --stats -r --files-from given
rm tree.index
try "folders and files" figure_is files 6 : index -o tree.index --stats -r outside tree 1.txt
run index -o linked.index -r linked
run which linked.index one
check "a folder behind a link is followed" output_is "$(printf 'linked/1\nlinked/4.gz')"
if [ "$(id -u)" -ne 0 ]; then
  mkdir -m 0 tree/closed
  try "a folder that cannot be read" one_line 1 "cannot open 'tree/closed': Permission denied" : index -o some.index -r tree
  try "... and the others are" output_is tree/.hidden/deep/2 : which some.index two
  rmdir tree/closed
fi

# ---- bad input ----

: >list.empty
try "a list without names makes no index" one_line 2 "there are no files for it" : index -o none.index --files-from list.empty
try "a list that is not there" one_line 1 "cannot open 'none'" : index -o none.index --files-from none
try "... makes no index" test ! -e none.index : index -o none.index --files-from none
try "names with zeros" one_line 1 "use --null" : index -o none.index --files-from list0
usage "--null needs --files-from" index -0 -o none.index 1.txt

try "no INDEX" one_line 2 "index needs -o INDEX" : index 1.txt
try "no files" one_line 2 "'none' does not exist" : index -o none
try "no keys" one_line 2 "takes an index, and keys" : grep ids
try "an index that is not there" one_line 2 "cannot read 'none'" : grep none x
try "an index that is none" one_line 2 "is not an index of tamis" : which 1.log x
try "an index that is empty" one_line 2 "is not an index of tamis" : which 3.txt x
try "a folder for an index" one_line 2 "cannot read" : which / x
try "a wrong expression" one_line 2 "--regex" : index --regex '(' -o none 1.txt
try "another expression" one_line 2 "was made with another --field or --regex" : index --regex x -o ids
try "another rate" one_line 2 "was made with --fpp 0.0001" : index --fpp 0.5 -o ids
try "two rules" one_line 2 "one of --field and --regex" : index --field 1 --regex x -o none 1.txt
try "field 0" one_line 2 "--field: '0' is not a number from 1 to" : index --field 0 -o none 1.txt
try "a file that is not there" one_line 1 "cannot open 'none'" : index -o some none 1.txt
try "the others are in the index" output_is one : grep some one
mkfifo fifo
try "a FIFO" one_line 1 "cannot open 'fifo': it is no regular file" : index -o some fifo
head -c 1000 8.log.gz >cut.gz
run index -o cut cut.gz 1.txt
tail -n 1 err >last && mv last err # zcat has said something before
check "a file that is cut off" one_line 1 "cannot read 'cut.gz': zcat has failed"
try "may hold any key" output_is cut.gz : which cut whatever

# The version, and each byte of the head in turn; bytes of the filters.
cp lines spoilt
printf '\x01' | dd of=spoilt bs=1 seek=12 conv=notrunc 2>/dev/null
try "another version" one_line 2 "needs another version" : grep spoilt one
# spoil FILE OFFSET: changes a byte.
spoil() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  # shellcheck disable=SC2059
  printf "\\x$(printf %02x $((byte ^ 85)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
head=$((52 + $(od -An -tu8 -j 36 -N 8 lines)))
for at in $(seq 0 7 $((head - 1))); do
  cp lines spoilt && spoil spoilt "$at"
  run grep spoilt one
  [ "$status" -eq 2 ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] || accepted="${accepted:-} $at"
done
check "a byte of the head that has changed is found" test -z "${accepted:-}"
size=$(stat -c %s lines)
for at in $(seq $((head + 20)) 29 $((size - 1))); do
  cp lines spoilt && spoil spoilt "$at"
  run grep spoilt one 'no newline'
  output_is "$(printf '1.txt:one\n2.txt:no newline')" >/dev/null || lines_lost="${lines_lost:-} $at"
  [ "$status" -eq 2 ] || unnoticed="${unnoticed:-} $at"
done
check "with a damaged filter, no line is missed" test -z "${lines_lost:-}"
check "and the status says so" test -z "${unnoticed:-}"
for bytes in 0 11 35 $((head - 1)) $((head + 40)) $((size - 1)); do
  head -c "$bytes" lines >spoilt
  run grep spoilt one
  [ "$status" -eq 2 ] || cut_off="${cut_off:-} $bytes"
done
check "an index that is cut off is an error" test -z "${cut_off:-}"

# ---- what would lose keys in silence ----

printf 'PK\003\004 and more' >archive.zip
run index -o archives archive.zip
check "an archive of files is not read as its first one" one_line 1 "cannot read 'archive.zip': it is an archive"
try "and may hold any key" output_is archive.zip : which archives anything
mkdir elsewhere
cp ids kept
(cd elsewhere && "$tamis" index -o ../kept >../out 2>../err)
status=$?
check "an index stays that is asked for in another folder" one_line 1 "none of the files of '../kept' is there"
check "as it was" cmp ids kept
run index --regex "$(printf '(%.0s' $(seq 5000))" -o none.idx 1.log
check "an expression that is too long" one_line 2 "--regex: it is longer than 4096 bytes"


try "an index of itself" one_line 2 "'ids' is INDEX itself" : index -o ids 1.log ids
ln ids hard
try "also by another name" one_line 2 "'hard' is INDEX itself" : index -o ids hard
cp 1.txt rest.tamis-unfinished-0
try "what a killed run has left of an index" one_line 2 "would be removed: rename it" : index -o rest rest.tamis-unfinished-0
check "... stays" cmp -s 1.txt rest.tamis-unfinished-0
echo 1.txt >rest.tamis-unfinished-0
try "... also as a list of files" one_line 2 "would be removed: rename it" : \
  index --files-from rest.tamis-unfinished-0 -o rest
mkdir rests && cp 1.txt rests/rest.tamis-unfinished-0 && cp 1.txt rests/other
try "... and is no file of a folder" figure_is files 1 : index -o rests/rest --stats -r rests
mkfifo index.fifo
try "a FIFO for an index" one_line 2 "cannot read 'index.fifo'" : which index.fifo x
try "also of index" one_line 2 "cannot read 'index.fifo'" : index -o index.fifo 1.txt
cp 1.txt becomes && run index -o become becomes 2.txt
rm becomes && mkdir becomes
try "a file that became a folder is dropped" figure_is "files dropped" 1 : index -o become --stats
try "and not named any more" ends_by 1 : which become one
env --ignore-signal=CHLD "$tamis" index -o ignored 8.log.gz >out 2>err
status=$?
check "children are waited for also where SIGCHLD was ignored" ends_by 0

# ---- memory and descriptors ----

if ! { (ulimit -v 25000; "$tamis" --version) >version; } 2>/dev/null; then
  skip "keys that find no memory" "the program does not run in so little memory"
else
  seq 4000000 >numbers
  (ulimit -v 25000 && exec "$tamis" index -o starved numbers) >out 2>err
  status=$?
  check "keys that find no memory" one_line 1 "out of memory for the keys of 'numbers'"
  try "may be in the file" output_is numbers : which starved 5
fi
# The stream of a pipe cannot be made: its end and the child must not be left behind.
if strace_runs; then
  for i in $(seq 60); do cp 2.log.gz "leak$i.gz"; done
  (ulimit -n 40; exec strace -qq -o trace -e trace=fcntl -e inject=fcntl:error=EBADF:when=3+ "$tamis" index -o leaks leak*.gz) 2>err
  check "descriptors are closed where no stream can be made" test "$(grep -c 'F_GETFL.*INJECTED' trace)" -eq 60
else
  skip "descriptors are closed where no stream can be made" "strace does not run"
fi
# forge INDEX COPY CODE: changes what an index of two files has, and makes its sums right.  CODE has the names
# `head`, `filters`, `sizes`, where the head says of each entry how long its filter is, and `more`, the heads of
# further parts, which have no filters.
forge() {
  /usr/bin/python3 - "$@" <<'END'
import struct
import sys

data = bytearray(open(sys.argv[1], "rb").read())
size, = struct.unpack_from("<Q", data, 36)
head, filters, more = data[52:52 + size], data[52 + size:], []
entry, sizes = 48 + struct.unpack_from("<Q", head, 16)[0], []
for _ in range(2):
    sizes.append(entry + 8 + struct.unpack_from("<Q", head, entry)[0] + 40)
    entry = sizes[-1] + 8


def with_sum(data):
    total = 0xCBF29CE484222325
    for byte in data:
        total = (total ^ byte) * 0x100000001B3 % 2**64
    return struct.pack("<Q", total)


def part(head, filters=b""):
    return struct.pack("<Q", len(head)) + with_sum(head) + head + filters


def entry_of(number, name):
    return struct.pack("<QQQ", 1, number, len(name)) + name + bytes(48)


exec(sys.argv[3])
parts = part(head, filters) + b"".join(map(part, more))
first = data[:20] + struct.pack("<Q", 36 + len(parts))
open(sys.argv[2], "wb").write(first + with_sum(first) + parts)
END
}
run index -o two 1.txt 2.txt
forge two same 'pass'
check "a forged index is as it was" cmp two same
damaged() { try "$1" one_line 2 "is damaged, or not complete" : grep forged one; }
forge two forged 'struct.pack_into("<Q", head, sizes[1], len(filters))'
damaged "filters that end behind the file"
forge two forged 'struct.pack_into("<Q", head, sizes[1], 2**64 - 1)'
damaged "a filter of 2^64 bytes"
forge two forged 'more = [entry_of(2, b"3.txt")]'
try "a file of a further part, without a filter" output_is 3.txt : which forged nothing
forge two forged 'more = [entry_of(1, b"2.txt")] * 2'
try "a file of two further parts" output_is 2.txt : which forged nothing
forge two forged 'more = [entry_of(3, b"3.txt")]'
damaged "a file behind the next number"
forge two forged 'more = [entry_of(2**64 - 1, b"3.txt")]'
damaged "... far behind it"
forge two forged 'more = [entry_of(0, b"3.txt")]'
damaged "a file in the place of another one"
forge two forged 'more = [struct.pack("<Q", 2**64 - 1)]'
damaged "a part of 2^64 files"
forge two forged 'more = [b""]'
damaged "a part that is empty"
# A filter for 10^5 keys, of which it has none, is little more than runs of zeros.
run build --capacity 100000 --fpp 0.01 -o none.tamis 3.txt
forge two zeros 'saved, filters = open("none.tamis", "rb").read(), b""
while saved:
    end = saved.find(bytes(64)) if bytes(64) in saved else len(saved)
    rest = saved[end:].lstrip(bytes(1))
    filters += struct.pack("<QQ", end, len(saved) - end - len(rest)) + saved[:end]
    saved = rest
struct.pack_into("<Q", head, sizes[0], len(filters))
struct.pack_into("<Q", head, sizes[1], 0)'
check "the filter of so many zeros is small" test "$(stat -c %s zeros)" -lt 4096
try "and takes no memory" one_line 2 "the filter of '1.txt' in the index is damaged" : which zeros nothing

if [ "${TAMIS_LONG:-}" ]; then
  { truncate -s 2200M giant && echo " key7" >>giant; } || exit 1
  run index --regex 'key[0-9]' -o giants giant
  check "a line of more than 2 GiB is not searched in part" one_line 1 "cannot search 'giant' for keys: a line has"
  try "nor in silence" one_line 2 "cannot search 'giant' for keys: a line has" : grep giants key7
  rm giant
else
  skip "a line of more than 2 GiB" "TAMIS_LONG is not set"
fi

if [ "$(id -u)" -ne 0 ]; then
  mkdir closed && cp ids closed && chmod 500 closed
  try "an index that cannot be replaced stays" cmp ids closed/ids : index -o closed/ids 1.log
fi

# Killed at any moment, the old index stands, or the new one.
cp ids whole
for delay in 0.01 0.02 0.05 0.1 0.15; do
  cp whole ids && touch 1.log 9.log
  { timeout -s KILL $delay "$tamis" index -o ids; } >/dev/null 2>&1
  "$tamis" grep ids "$(id_of 9 3)" >out 2>err || torn=$delay
done
check "kill -9 leaves an index" test -z "${torn:-}"

finish
