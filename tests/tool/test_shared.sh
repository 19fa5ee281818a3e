#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests `tamis dedup --shared` and `tamis build --shared`: test_shared.sh PATH-TO-TAMIS
#
# The promise: of all runs with one file, at the same time or one after the other, one writes a line.
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

rate=--fpp=1e-10 # one of 300,000 lines is wrong once in some 30,000 runs
# each_once EXPECTED FILE...: these files have the lines of EXPECTED, which is sorted, each once.
each_once() { sort "${@:2}" | cmp - "$1"; }
# nearly_each_once EXPECTED FILE...: none twice, and all but such as other adds at the same time hide.
nearly_each_once() {
  sort "${@:2}" | diff - "$1" >differences || ! grep -q '^<' differences && [ "$(grep -c '^>' differences)" -le $hidden ]
}
sort numbers >numbers.sorted

# ---- several processes at once ----

# at_once N ARGUMENTS...: so many processes at once, whose outputs are part.1 to part.N.
at_once() {
  local pids=() i n=$1
  shift
  rm -f part.* err.*
  for i in $(seq "$n"); do
    "$tamis" dedup "$@" >"part.$i" 2>"err.$i" &
    pids+=($!)
  done
  status=0
  for i in "${pids[@]}"; do wait "$i" || status=$?; done
  cat err.* >err
}
for n in 2 4; do
  rm -f seen
  at_once "$n" $rate --capacity 400k --shared seen numbers
  check "$n processes at once create one filter" ends_by 0
  check "... and write each line once" nearly_each_once numbers.sorted part.*
  check "... with nothing beside the file" no_rest
  at_once "$n" --shared seen numbers
  check "... and once for all later runs" test ! -s part.1 -a ! -s "part.$n"
done
rm -f seen
at_once 4 $rate --capacity 1k --threads 2 --shared seen numbers
check "a filter that grows meanwhile" nearly_each_once numbers.sorted part.*
run info seen
check "... has further layers" test "$(row layers)" -ge 5

rm -f seen
head -n 200000 numbers >first
tail -n +100001 numbers >second
tail -n 100000 numbers >only.second
try "the first run" same_as first : dedup --shared seen $rate first
check "... makes a file for its owner alone" mode_is seen 600
try "the second run drops what the first one saw" same_as only.second : dedup --shared seen second second
try "an output file without new lines" test -e result -a ! -s result : dedup --shared seen -o result second
: >empty.file
chmod 640 empty.file
try "a file that stands there empty is filled" same_as first : dedup $rate --shared empty.file first
check "... and keeps its mode" mode_is empty.file 640

try "--mode and --group: a new file for others" same_as first : \
  dedup $rate --shared others --mode 0664 --group "$(id -g)" first
check "... has the mode" mode_is others 664
try "a group without a mode is refused" one_line 2 "--group needs --mode" : dedup --shared none --group 0 first
try "so is a mode that keeps its owner out" one_line 2 "--mode: '0440'" : dedup --shared none --mode 0440 first
try "and a group that nobody knows" one_line 2 "no group 'no such'" : dedup --shared none --mode 0640 --group 'no such' first
check "... without a file" test ! -e none

# ---- the other commands ----

try "query reads it" same_as numbers : query seen numbers
try "... from standard input, too" same_as numbers : query - numbers <seen
try "it is no state" one_line 2 "'seen' is a shared filter: use --shared instead of --state" : \
  dedup --state seen numbers
try "info says that it is shared" grep -q '^shared  *by processes$' out : info seen
check "... how many lines it has" test "$(row lines)" = 300000
check "... what is reserved, and the limit" \
  gawk '/^bytes/ { good = $2 > 300000 && $6 > 100 * $2 } END { exit !good }' out
try "info --json, too" grep -q '"shared": true, "reserved_bytes": [1-9]' out : info --json seen
try "info --check reads all of it" grep -q '^checked' out : info --check seen
try "build adds to it" empty : build --shared seen paths
try "... what dedup then drops" empty : dedup --shared seen paths numbers
rm -f seen
try "build creates it" empty : build --shared seen --layout classic --capacity 1k $rate --seed 7 paths
try "... with its layout" grep -q '^kind *bloom, classic$' out : info --show-seed seen
check "... with its seed" grep -q '^seed *0x0*7$' out
try "... which dedup takes" empty : dedup --shared seen paths
run build paths -o sealed
run info sealed
check "a saved filter is not shared" test -z "$(row shared)"

# ---- options ----

while read -r command option text; do
  run "$command" "$option" --shared seen numbers
  check "a file with another ${option%=*}" one_line 2 "cannot share 'seen': $text"
done <<'END'
dedup --capacity=5 capacity is 5
dedup --fpp=0.1 fpp is 0.1
dedup --layout=blocked layout is blocked
build --memory=1M max_bytes is 1048576
build --seed=8 seed is set
END
try "a file with these options" empty : dedup --shared seen --capacity 1k $rate --layout classic paths
usage "--shared is for Bloom filters" dedup --kind cuckoo --shared seen paths
usage "--shared is for Bloom filters" build --kind counting --shared seen paths
usage "exclude each other" dedup --state state --shared seen paths
usage "--layout needs --shared" dedup --layout classic paths
usage "-o FILE, or --shared FILE" build paths
usage "-o FILE, or --shared FILE" build -o list --shared seen paths
usage "--like and --fixed cannot be" build --fixed --shared seen paths
usage "--like and --fixed cannot be" build --like sealed --shared seen paths

# ---- windows ----

head -n 20000 numbers >few
sort few >few.sorted
seq -f "other %g" 1000 >other
window=(--fpp=1e-8 --capacity 30k) # one of 20,000 lines is wrong once in some 10,000 runs
rm -f seen
at_once 4 "${window[@]}" --window 3 --period 1000 --shared seen few
check "4 processes at once share a window" ends_by 0
check "... and write each line once" nearly_each_once few.sorted part.*
run info seen
check "info says what it is" test "$(row window)" = 3 -a "$(row shared)" = by
check "... and how many lines it has" test "$(row lines)" = 20000
try "query reads it" same_as few : query seen few
try "... but not from standard input" one_line 2 "a later version of tamis, or is a window that processes share" : \
  query - numbers <seen
try "a later run" same_as other : dedup --shared seen --window 3 --period 1000 other
try "another window is refused" one_line 2 "cannot share 'seen': window is 4; the filter in the file has 3" : \
  dedup --shared seen --window 4 paths
try "so is --renew" one_line 2 "cannot share 'seen': window_renews" : dedup --shared seen --renew --window 3 paths
usage "a period has 0.1 seconds or more" dedup --shared seen --period 0.01 paths
rm -f seen
run dedup "${window[@]}" --window 1 --period 1000 --renew --shared seen other
try "a window that renews is taken from the file" empty : dedup --shared seen --period 1000 other
rm -f seen
run dedup --shared seen other
try "--period needs a window" one_line 1 "'seen' has no window, so it has no --period" : \
  dedup --shared seen --period 5 paths

rm -f seen
run dedup --shared seen --memory 4M --capacity 1k $rate paths
check "--memory is a limit of the file" test "$(stat -c %s seen)" -le $((4 << 20))
try "... which may be given again" empty : dedup --shared seen --memory 4M paths
run dedup --shared seen numbers numbers numbers
check "a file that may not grow further" test "$status" -eq 0
seq 10000000 10500000 >"more"
try "... when it is full" one_line 1 "'seen' is full" : dedup --shared seen more
mv out written
try "... has what was written" test -s written -a ! -s out : dedup --shared seen more

# ---- one output of several runs ----

# hold FILE MODE LOCK CODE: another process locks the file, and runs this code.
mkfifo held
hold() {
  python3 -c "import fcntl, os, sys, time
f = open(sys.argv[1], sys.argv[2])
fcntl.lockf(f, fcntl.$3)
$4" "$1" "$2" >held &
  read -r _ <held
}
appends() {
  timeout -s KILL 60 "$tamis" dedup $rate --shared seen "$@" >>joined 2>err
  status=$?
}
rm -f seen
hold joined a LOCK_EX 'os.write(f.fileno(), b"begun"); print("held", flush=True); time.sleep(0.5)
os.write(f.fileno(), b" and ended\n")'
appends first
wait $!
check "no line is ended that another run is writing" test -z "$(grep -x begun joined)"
rm -f seen
: >joined
hold joined r LOCK_SH 'print("held", flush=True); time.sleep(600)'
appends first
kill $!
check "a lock of a reader stops no run" cmp -s first joined
# The pipe is full before anybody reads.
rm -f seen
for i in 1 2 3 4; do gawk -v n="$i" '{ printf "%d %s %0*d\n", n, $0, n * NR % 150, 0 }' first; done >long
split -n l/8 long long.
printf '%s\n' long.* | xargs -P 4 -n 1 "$tamis" dedup $rate --shared seen -q --capacity 1M | { sleep 0.5; sort; } >joined
check "no line of several runs is torn in their pipe" cmp -s joined <(sort long)

# ---- files that cannot be shared ----

try "a saved filter" one_line 2 "cannot share 'sealed': sealed: is a saved filter" : dedup --shared sealed paths
cp sealed before
try "a file of lines" one_line 2 "cannot share 'numbers': numbers: is no filter, or damaged" : \
  dedup --shared numbers paths
check "... and both stand as they were" test "$(wc -l <numbers)" = 300000 -a -z "$(cmp sealed before 2>&1)"
mkdir folder
try "a folder" one_line 2 "cannot share 'folder': folder cannot be opened: Is a directory" : dedup --shared folder paths
try "a file in no folder" one_line 2 "nowhere/seen cannot be created: No such file or directory" : \
  dedup --shared nowhere/seen paths
rm -f seen
by=in_small_files try "no room" one_line 2 "cannot share 'seen': seen cannot be written: File too large" : \
  dedup --shared seen paths
check "... leaves nothing" test ! -e seen
check "... not even beside it" no_rest
try "the output would be the filter" one_line 1 "'seen' is the shared filter, and input or output" : \
  dedup --shared seen -o ./seen paths
check "... which is not created" test ! -e seen
run dedup --shared own paths
cp own own.kept
exec 7>>own
try "... by its descriptor, too" one_line 1 "'own' is the shared filter, and input or output" : \
  dedup --shared own -o /dev/fd/7 paths
exec 7>&-
check "... and the filter stays as it was" cmp -s own own.kept
if strace_runs; then
  strace -qq -o trace -e trace=linkat -e inject=linkat:signal=TERM "$tamis" dedup --shared begun paths >out 2>err
  status=$?
  check "SIGTERM while the file is created" ends_by 143
  check "... leaves nothing beside it" test ! -e begun.tamis-unfinished-0
else
  skip "SIGTERM while the file is created" "strace does not run"
fi
try "an input would be the filter" one_line 1 "'paths' is the shared filter, and input or output" : \
  dedup --shared paths paths

# ---- runs that end early ----

# start_shared ARGUMENTS...: such a run waits for lines.
has_begun() { [ -s slow.out ] || "$tamis" info seen 2>/dev/null | grep -q '^lines *1000 '; }
start_shared() {
  rm -f seen go
  start_slow has_begun "$tamis" dedup $rate --shared seen "$@" slow
}
start_shared
end_slow KILL
try "after kill -9, no line comes twice" each_once numbers.sorted slow.out out : dedup --shared seen numbers
check "... and the file is whole" "$tamis" info --check seen >info.out

start_shared
printf cut >>slow.out
: >go
wait_for grep -q finished slow.out
end_slow TERM
check "what is appended begins on a new line" cmp -s slow.out <(seq 1000; echo cut; echo unfinished)

# The process is killed anywhere; what it had not written is missing, and of its last line a part.
for try in 1 2 3; do
  rm -f seen part
  env --default-signal "$tamis" dedup $rate --capacity 1k --shared seen numbers numbers >part 2>err &
  pid=$!
  for _ in $(seq 6000); do [ -s part ] && break; done
  kill -KILL "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  run dedup $rate --capacity 1k --shared seen numbers
  grep -c '' part | xargs -I N head -n N part | gawk '{ line[NR] = $0 } END {
    for (i = 1; i < NR + (RT != ""); i++) print line[i] }' >whole
  check "killed anywhere ($try): no line twice" test -z "$(cat whole out | sort | uniq -d)"
  check "... nor another one" test -z "$(cat whole out | sort | comm -23 - numbers.sorted)"
done

for signal in INT TERM; do
  start_shared
  end_slow $signal
  check "SIG$signal ends a run, as the shell sees" ends_by $((128 + $(kill -l $signal)))
  try "... and what was read is written, once" each_once numbers.sorted slow.out out : dedup --shared seen numbers
done
rm -f result
start_shared -o result
end_slow TERM
check "SIGTERM ends a run with -o" ends_by 143
try "... whose output then appears" each_once numbers.sorted result out : dedup --shared seen numbers
rm -f seen
echo precious >result
try "an error in the input" one_line 1 "cannot read '/proc/self/mem'" : \
  dedup $rate --shared seen -o result paths /proc/self/mem
check "... and what was in the filter is in the output" cmp -s result paths.expected
try "an error before anything is new" one_line 1 "cannot read '/proc/self/mem'" : \
  dedup --shared seen -o result /proc/self/mem
check "... leaves the output" cmp -s result paths.expected

start_shared
: >seen
: >go
end_slow
check "a file that was made shorter" one_line 2 "a file in use was made shorter"

finish
