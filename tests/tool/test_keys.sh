#!/bin/bash
# SPDX-License-Identifier: MIT
# Keys inside lines, and --repeated, against exact tools: test_keys.sh PATH-TO-TAMIS [short]
lines=20000
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

# ---- dedup ----

# Hashes and counts, as lists of leaked passwords have them: the same hash comes with several counts.
gawk 'BEGIN { srand(2); for (i = 0; i < 20000; i++) {
  n = i % 3 ? i : int(rand() * i); printf "%08X%08X:%d\r\n", n * 7919, n * 104729, rand() * 1000 } }' >counts
gawk -F: '!seen[$1]++' counts >expected
try "a field before a delimiter" same_as expected : dedup "${exact:?}" --crlf --field 1 --delimiter : counts
try "standard input" same_as expected : dedup $exact -f1 -d: < <(cat counts)
try "the first group of an expression" same_as expected : dedup $exact --regex '^([^:]*):.*' counts
try "all that an expression matches" same_as expected : dedup $exact --regex '^[0-9A-F]+' counts
gawk -F: 'seen[$1]++' counts >repeats
try "--repeated: what dedup drops" same_as repeats : dedup $exact --repeated -f1 -d: counts
gawk 'seen[$0]++' paths >expected
try "--repeated with whole lines" same_as expected : dedup $exact --repeated paths
run dedup $exact --repeated --stats -f1 -d: counts
check "--stats counts both" test "$(row 'distinct dropped' err) $(row 'duplicates written' err)" = \
  "$((20000 - $(wc -l <repeats))) $(wc -l <repeats)"
head -n 10000 counts >first.half
tail -n +10001 counts >second.half
run dedup --repeated --state seen.tamis -f1 -d: first.half
mv out before
run dedup --repeated --state seen.tamis -f1 -d: second.half
cat before out | cmp -s - repeats
check "--repeated with a state knows the lines of earlier runs" test $? -eq 0

gawk 'BEGIN { for (i = 0; i < 3000; i++) printf "%s%d \t %d%s%d\n", i % 5 ? "" : "  ", i, i % 700, i % 3 ? " " : "", i }' >blanks
gawk 'NF < 2 || !seen[$2]++' blanks >expected
try "fields between blanks, as for awk" same_as expected : dedup $exact --field 2 blanks
printf 'a::1\na::2\nb\na:c:3\n:d\n:e:\nf:\n' >empties
printf 'a::1\nb\na:c:3\n:d\n:e:\n' >expected
try "fields between two delimiters are empty, as for cut" same_as expected : dedup $exact -f2 -d: empties
printf 'x 1\nX 2\ny 3\nx 4\n\303\204 5\n\303\244 6\n' >cases
printf 'x 1\ny 3\n\303\204 5\n\303\244 6\n' >expected
try "--ignore-case: of the letters A to Z" same_as expected : dedup $exact -i -f1 cases
printf 'x 1\ny 3\n\303\204 5\n\303\244 6\n' >expected
try "--ignore-case: in the expression, too" same_as expected : dedup $exact -i --regex '^([A-Z])|^[^ ]+' cases
printf 'a\na\r\nb\r\nb\r\r\nb\n\r\n\n' >crlf
printf 'a\nb\r\nb\r\r\n\r\n' >expected
try "--crlf: one carriage return is no part of a line" same_as expected : dedup $exact --crlf crlf
printf 'id=1\r\nid=2\r\nid=1\n' >ends
printf 'id=1\r\nid=2\r\n' >expected
try "--crlf: an expression meets the end of the line before it" same_as expected : dedup $exact --crlf --regex '=[0-9]$' ends
printf 'a\0b 1\na\0c 2\na\0b 3\n' >nul
printf 'a\0b 1\na\0c 2\n' >expected
try "bytes of 0 in a field" same_as expected : dedup $exact -f1 nul

# ---- lines without a key ----

printf 'no\nx 1\nno\nx 2\n\nno\n' >some
printf 'no\nx 1\nno\n\nno\n' >expected
printf 'x 1\nx 2\n' >keyed
try "dedup writes a line without a key each time" same_as some : dedup $exact --field 2 some
run dedup $exact --stats --regex '(x) ' some
check "... and no second one with a key" test "$(tr '\n' , <out)" = 'no,x 1,no,,no,'
check "... and counts them" test "$(row 'distinct written' err) $(row 'without a key' err)" = "1 4"
try "--repeated does not write it" empty : dedup --repeated --field 2 some
printf 'y 2\nz 3\n' >known
run build --field 2 known -o known.tamis
printf 'x 2\n' >expected
try "query writes lines whose key is in" same_as expected : query --field 2 known.tamis some
printf 'no\nx 1\nno\n\nno\n' >expected
try "query -v: others, and those without a key" same_as expected : query -v --field 2 known.tamis some
printf 'x 2\n' >expected
try "common: lines with a common key" same_as expected : common $exact --field 2 known some
try "common: of three files" same_as expected : common $exact --field 2 known keyed some
try "common: a line without a key is in no file" ends_by 0 : common --field 2 some known
run build --field 3 some -o none.tamis
try "build adds nothing for a line without a key" grep -q '^distinct lines *0' err : build --stats --field 3 some -o none.tamis
# A filter that is full: what is written is the beginning of what would be, but for false positives.
gawk 'BEGIN { for (i = 0; i < 60000; i++) print (i % 3 ? "key " i : "keyless" i) }' >half.keyed
run dedup --kind cuckoo --memory 64K --capacity 20k --quiet --field 2 half.keyed
check "more keys than there is room for" one_line 1 "more distinct lines than fit"
last=$(tail -n 1 out | tr -cd 0-9)
check "... end the output without a gap" test $((last + 1 - $(wc -l <out))) -le 20
gawk 'BEGIN { for (i = 0; i < 200000; i++) print i % 10, i }' >few.keys
try "the filter is for the number of keys" in_memory 65536 : dedup --stats --field 1 few.keys

# ---- values of JSON ----

printf 'One:1:x\r\nTwo:2\r\n' >1.idx
printf 'three:3\nuser=Ann; user=Bob\n' >2.idx
index_finds() { # KEY FILE OPTION...
  run index -o keys.index "${@:3}" 1.idx 2.idx
  [ "$status" -eq 0 ] && run which keys.index "$1" && [ "$(cat out)" = "$2" ] || return
  run grep keys.index "$1" && [ "$status" -eq 0 ] && [ -s out ] || return
  mv keys.index last.index
}

run dedup --json /a some
if grep -q 'built without jansson' err; then
  skip "--json" "the command was built without jansson"
else
  # Lines and, for each pointer, what dedup writes of them; and the lines without a value.
  /usr/bin/python3 - <<'END'
import json
import random

draw = random.Random(3)
POINTERS = {"url": "/url", "number": "/n", "deep": "/user/ids/1", "escaped": "/a~1b/~0", "whole": "", "zero": "/user/ids/01"}
TEXTS = ["a", "b", "caf\u00e9", "\U0001f600", 'quo"te', "back\\slash", "nul\0", "", "1", "true", "12345678901234567"]
NUMBERS = [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -2**64, 10**40, 12345678901234567, 0.5, 0.1, 0.1 + 0.2, 1 / 3, 1e300, True, False, None, "1", [1], {"x": 1}]


def line():
    if draw.random() < 0.1:
        return draw.choice(["", "no json", '{"url": "a"', '{"url": "a"} x', '"text"', "5", '{"n": 1e999}', "[" * 5000])
    value = {"url": draw.choice(TEXTS), "n": draw.choice(NUMBERS), "user": {"ids": [draw.randrange(9) for _ in range(draw.randrange(4))]},
             "a/b": {"~": draw.choice(TEXTS)}}
    for name in draw.sample(sorted(value), draw.randrange(3)):
        del value[name]
    return json.dumps(value, ensure_ascii=draw.random() < 0.5)


def text(line, pointer):
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(token)] if isinstance(value, list) and token == str(int(token)) else value.get(token)
        except (ValueError, IndexError, AttributeError):
            return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return next((text for n in (15, 16, 17) if float(text := "%.*g" % (n, value)) == value != float("inf")), "1e999")
    return str(value) if isinstance(value, (str, int)) else None


lines = [line() for _ in range(3000)]
open("json.lines", "w").write("".join(line + "\n" for line in lines))
for name, pointer in POINTERS.items():
    seen, kept = set(), []
    for line in lines:
        key = text(line, pointer)
        if key is None or key not in seen:
            kept.append(line)
        seen.add(key)
    open(name + ".expected", "w").write("".join(line + "\n" for line in kept))
open("pointers", "w").write("".join("%s %s\n" % item for item in POINTERS.items()))
END
  while read -r name pointer; do
    try "--json '$pointer'" same_as "$name.expected" : dedup $exact --json "$pointer" json.lines
  done <pointers
  run build --json /url json.lines -o urls.tamis
  printf '{"url":"new"}\n{"n":1}\n' >further
  { sed -n '/"url": "b"/p' json.lines | head -n 1; cat further; } >asked
  head -n 1 asked >expected
  try "query by a value" same_as expected : query --json /url urls.tamis asked
  by=sorted try "eight threads: values" same_as <(sort json.lines | grep '"url": "[^"].*}$') : \
    query --threads 8 --json /url urls.tamis <(grep '"url": "[^"].*}$' json.lines)
  printf '{"id": "X1"}\n' >1.json
  check "index: a value" index_finds x1 1.json --json /id --ignore-case 1.json
  printf '{"id": "\\u0062/1"}\n{"id": "b\\/1"}\n{"id": "c"}\n' >1.json
  check "index: a value with escapes" index_finds b/1 1.json --json /id 1.json
  printf '{"id": 0.10, "n": 18446744073709551616, "t": "\\"-9"}\n{"id": 18446744073709551616}\n' >numbers.json
  run index --json /id -o numbers.index numbers.json
  try "grep: a fraction, and an integer of more than 64 bits" same_as numbers.json : \
    grep numbers.index 0.1 18446744073709551616
  try "grep: both ways to write a value" same_as <(sed -n '1,2s/^/1.json:/p' 1.json) : grep last.index b/1
  printf '%s\n' '{"id": 1, "n": 1e999}' '{"id": [1e999, 1E+400], "n": -1.5e309}' '{"id": 1, "n": 01e999}' '{"id": 1, "n": 1.e999}' \
    '{"id": 1, "n": 1e999e9}' '{"id": 1, "n": -.5e999}' '{"id": 1, "s": "\" 1e999", "n": -9e999}' >large.json
  run index --json /id -o large.index large.json
  try "grep: reals that are too large" same_as <(sed -n '1p;7p' large.json) : grep large.index 1
  run index --json /n -o large.n large.json
  try "... are as they are written" same_as <(sed -n '1,2p' large.json) : grep large.n -- 1e999 -1.5e309
  usage "--json: 'url' is no JSON pointer" dedup --json url further
  usage "--json: '/~2' is no JSON pointer" dedup --json /~2 further
  usage "one of --field and --regex and --json" dedup --json /a -f1 further
fi

# ---- threads ----

first_keys() { cut -d: -f1 "$1" | sort; }
for command in "dedup" "dedup --repeated"; do
  # shellcheck disable=SC2086  # two words
  run $command $exact --threads 8 -f1 -d: counts
  [ "$command" = dedup ] && gawk -F: '!seen[$1]++' counts >whole || cp repeats whole
  missing=$(comm -3 <(first_keys out) <(first_keys whole) | wc -l)
  check "eight threads: $command, $missing other keys" test "$missing" -le "${hidden:?}"
done
run build -f1 -d: --threads 8 first.half -o half.tamis
gawk -F: 'NR == FNR { seen[$1]; next } $1 in seen' first.half counts | sort >expected
by=sorted try "eight threads: query" same_as expected : query --threads 8 -f1 -d: half.tamis counts
by=sorted try "eight threads: common" same_as expected : common $exact --threads 8 -f1 -d: first.half counts
by=sorted try "eight threads: an expression" same_as expected : query --threads 8 --regex '^([^:]+)' half.tamis counts

# ---- index ----

check "index: a field before a delimiter" index_finds One 1.idx --field 1 --delimiter :
check "index: a line without its carriage return" index_finds 2 1.idx --crlf --field 2 --delimiter :
check "index: whole lines" index_finds Two:2 1.idx --crlf
check "index: upper case for lower case" index_finds THREE 2.idx --ignore-case --field 1 --delimiter :
check "index: the group of each match" index_finds Bob 2.idx --regex 'user=([A-Za-z]+)'
try "... and no more than the group" ends_by 1 : which last.index user=Bob
run index -o keys.index --field 1 -d : 1.idx
try "an index knows its delimiter" one_line 2 "was made with another --field or --regex" : index -o keys.index --field 1
try "... and whether letters are folded" one_line 2 "was made without --ignore-case;" : index -o keys.index --field 1 -d : -i
try "... and carriage returns" one_line 2 "was made without --crlf;" : index -o keys.index --field 1 -d : --crlf
try "... which may be given again" ends_by 0 : index -o keys.index --field 1 -d :
try "... or not" ends_by 0 : index -o keys.index

# ---- bad options ----

usage "--delimiter needs --field" dedup -d : counts
usage "--delimiter: '::' is not one byte" dedup -f1 -d :: counts
usage "--delimiter: '' is not one byte" dedup -f1 -d '' counts
usage "one of --field and --regex" common -f1 -e x a b
usage "one of --field and --regex" query -f1 -f2 known.tamis
usage "--regex: " build -e '(' counts -o none
usage "--field: '0' is not a number from 1 to" dedup -f0 counts

finish
