#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests `tamis dedup --shared` and `tamis build --shared`: test_shared.sh PATH-TO-TAMIS
#
# The promise: of all runs with one file, at the same time or one after the other, one writes a line.
set -u
export LC_ALL=C

tamis=$(realpath "${1:?usage: test_shared.sh PATH-TO-TAMIS}")
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$(realpath "$0")")/tap.sh"

rate=--fpp=1e-10 # one of 300,000 lines is wrong once in some 30,000 runs
no_rest() { [ -z "$(find . -name '*.tamis-*')" ]; }
row() { sed -n "s/^$1  *\([^ ]*\).*/\1/p" out; }
usage() {
  local text=$1
  shift
  run "$@"
  check "usage: tamis $*" one_line 2 "$text"
}
empty() { [ "$status" -eq 0 ] && [ ! -s out ]; }
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
run dedup --shared seen $rate first
check "the first run" same_as first
check "... makes a file for its owner alone" test "$(stat -c %a seen)" = 600
run dedup --shared seen second second
check "the second run drops what the first one saw" same_as only.second
run dedup --shared seen -o result second
check "an output file without new lines" test -e result -a ! -s result
: >empty.file
chmod 640 empty.file
run dedup $rate --shared empty.file first
check "a file that stands there empty is filled" same_as first
check "... and keeps its mode" test "$(stat -c %a empty.file)" = 640

# ---- the other commands ----

run query seen numbers
check "query reads it" same_as numbers
"$tamis" query - numbers <seen >out 2>err
status=$?
check "... from standard input, too" same_as numbers
run dedup --state seen numbers
check "it is no state" one_line 2 "'seen' is a shared filter: use --shared instead of --state"
run info seen
check "info says that it is shared" grep -q '^shared  *by processes$' out
check "... how many lines it has" test "$(row lines)" = 300000
check "... what is reserved, and the limit" \
  gawk '/^bytes/ { good = $2 > 300000 && $6 > 100 * $2 } END { exit !good }' out
run info --json seen
check "info --json, too" grep -q '"shared": true, "reserved_bytes": [1-9]' out
run info --check seen
check "info --check reads all of it" grep -q '^checked' out
run build --shared seen paths
check "build adds to it" empty
run dedup --shared seen paths numbers
check "... what dedup then drops" empty
rm -f seen
run build --shared seen --layout classic --capacity 1k $rate --seed 7 paths
check "build creates it" empty
run info --show-seed seen
check "... with its layout" grep -q '^kind *bloom, classic$' out
check "... with its seed" grep -q '^seed *0x0*7$' out
run dedup --shared seen paths
check "... which dedup takes" empty
run build paths -o sealed
run info sealed
check "a saved filter is not shared" test -z "$(row shared)"

# ---- options ----

for pair in "capacity is 5" "fpp is 0.1" "layout is blocked" "max_bytes is 1048576" "seed is set"; do
  case $pair in
  capacity*) option=--capacity=5 command=dedup ;;
  fpp*) option=--fpp=0.1 command=dedup ;;
  layout*) option=--layout=blocked command=dedup ;;
  max*) option=--memory=1M command=build ;;
  seed*) option=--seed=8 command=build ;;
  esac
  run "$command" "$option" --shared seen numbers
  check "a file with another ${option%=*}" one_line 2 "cannot share 'seen': $pair"
done
run dedup --shared seen --capacity 1k $rate --layout classic paths
check "a file with these options" empty
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
run query seen few
check "query reads it" same_as few
"$tamis" query - numbers <seen >out 2>err
status=$?
check "... but not from standard input" one_line 2 "standard input needs a later version of tamis, or is a window that processes share"
run dedup --shared seen --window 3 --period 1000 other
check "a later run" same_as other
run dedup --shared seen --window 4 paths
check "another window is refused" one_line 2 "cannot share 'seen': window is 4; the filter in the file has 3"
run dedup --shared seen --renew --window 3 paths
check "so is --renew" one_line 2 "cannot share 'seen': window_renews"
usage "a period has 0.1 seconds or more" dedup --shared seen --period 0.01 paths
rm -f seen
run dedup "${window[@]}" --window 1 --period 0.2 --shared seen other
sleep 0.5
run dedup --shared seen --period 0.2 other
check "what is old is written again" same_as other
rm -f seen
run dedup "${window[@]}" --window 1 --period 1000 --renew --shared seen other
run dedup --shared seen --period 1000 other
check "a window that renews is taken from the file" empty
rm -f seen
run dedup --shared seen other
run dedup --shared seen --period 5 paths
check "--period needs a window" one_line 1 "'seen' has no window, so it has no --period"

rm -f seen
run dedup --shared seen --memory 4M --capacity 1k $rate paths
check "--memory is a limit of the file" test "$(stat -c %s seen)" -le $((4 << 20))
run dedup --shared seen --memory 4M paths
check "... which may be given again" empty
run dedup --shared seen numbers numbers numbers
check "a file that may not grow further" test "$status" -eq 0
seq 10000000 10500000 >"more"
run dedup --shared seen more
check "... when it is full" one_line 1 "'seen' is full"
mv out written
run dedup --shared seen more
check "... has what was written" test -s written -a ! -s out

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

run dedup --shared sealed paths
check "a saved filter" one_line 2 "cannot share 'sealed': sealed: is a saved filter"
cp sealed before
run dedup --shared numbers paths
check "a file of lines" one_line 2 "cannot share 'numbers': numbers: is no filter, or damaged"
check "... and both stand as they were" test "$(wc -l <numbers)" = 300000 -a -z "$(cmp sealed before 2>&1)"
mkdir folder
run dedup --shared folder paths
check "a folder" one_line 2 "cannot share 'folder': folder cannot be opened: Is a directory"
run dedup --shared nowhere/seen paths
check "a file in no folder" one_line 2 "cannot share 'nowhere/seen': nowhere/seen cannot be created: No such file or directory"
rm -f seen
(ulimit -f 100; "$tamis" dedup --shared seen paths >out 2>err)
status=$?
check "no room" one_line 2 "cannot share 'seen': seen cannot be written: File too large"
check "... leaves nothing" test ! -e seen
check "... not even beside it" no_rest
run dedup --shared seen -o ./seen paths
check "the output would be the filter" one_line 1 "'seen' is the shared filter, and input or output"
check "... which is not created" test ! -e seen
run dedup --shared paths paths
check "an input would be the filter" one_line 1 "'paths' is the shared filter, and input or output"

# ---- runs that end early ----

mkfifo slow
# start_slow ARGUMENTS...: a run that has read 1000 lines and waits for more, with its process in $pid.
start_slow() {
  : >slow.out
  : >err
  in_background 'exec 3>slow; seq 1000 >&3; printf unfinished >&3; while [ ! -e go ]; do sleep 0.05; done; echo >&3; exec sleep 60'
  env --default-signal "$tamis" dedup $rate --shared seen "$@" slow >>slow.out 2>slow.err &
  pid=$!
  for _ in $(seq 600); do
    { [ -s slow.out ] || "$tamis" info seen 2>/dev/null | grep -q '^lines *1000 '; } && return
    sleep 0.05
  done
}
end_slow() {
  wait "$pid"
  status=$?
  kill -KILL -- "-${background[-1]}"
  wait "${background[-1]}"
  cp slow.err err
} 2>/dev/null
rm -f seen
start_slow
kill -KILL "$pid"
end_slow
run dedup --shared seen numbers
check "after kill -9, no line comes twice" each_once numbers.sorted slow.out out
check "... and the file is whole" "$tamis" info --check seen >info.out

rm -f seen
start_slow
printf cut >>slow.out
: >go
for _ in $(seq 600); do grep -q finished slow.out && break; sleep 0.05; done
rm go
kill "$pid"
end_slow
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

for signal in INT TERM HUP; do
  rm -f seen
  start_slow
  kill -s $signal "$pid"
  end_slow
  check "SIG$signal ends a run, as the shell sees" ends_by $((128 + $(kill -l $signal)))
  run dedup --shared seen numbers
  check "... and what was read is written, once" each_once numbers.sorted slow.out out
done
rm -f seen result
start_slow -o result
kill -TERM "$pid"
end_slow
check "SIGTERM ends a run with -o" ends_by 143
run dedup --shared seen numbers
check "... whose output then appears" each_once numbers.sorted result out
rm -f seen
echo precious >result
run dedup $rate --shared seen -o result paths /proc/self/mem
check "an error in the input" one_line 1 "cannot read '/proc/self/mem'"
check "... and what was in the filter is in the output" cmp -s result paths.expected
run dedup --shared seen -o result /proc/self/mem
check "an error before anything is new" one_line 1 "cannot read '/proc/self/mem'"
check "... leaves the output" cmp -s result paths.expected

rm -f seen
start_slow
: >seen
: >go
end_slow
rm go
check "a file that was made shorter" one_line 2 "a file in use was made shorter"

echo "1..$number"
[ "$failures" -eq 0 ]
