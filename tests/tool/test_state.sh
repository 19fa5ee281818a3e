#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests `tamis dedup --state`: test_state.sh PATH-TO-TAMIS
#
# The promise: each line in the state has been written.  So a run that is killed at any moment may
# repeat lines in the next run, but it loses none.
# shellcheck disable=SC2002  # pipes are tested
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

no_state() { rm -f state ./*.tamis-* state.lock; }
rate=--fpp=5e-8
# left STATUS TEXT: the last run ended with this status and message, and the state is as it was.
left() { one_line "$@" && cmp -s state before; }

# ---- what earlier runs have seen stays seen ----

printf '\n\n' >newlines
head -n 200000 numbers >first
tail -n +100001 numbers >second
tail -n 100000 numbers >only.second
try "the first run" within first 2 0 : dedup $rate --state state first
check "... makes a state for its owner alone" mode_is state 600
check "... with nothing beside it" no_rest
try "the second run drops what the first one saw" within only.second 2 0 : dedup $rate --state state second second
cp state before
try "the third run has nothing to write" empty : dedup --state state first second
check "... and leaves the state as it is" cmp -s state before
try "the state is a saved filter" ends_by 0 : info --check state
try "... which query reads" within numbers 2 0 : query state numbers
no_state
run dedup $rate --threads 4 --state state < <(cat paths)
sort -o out out
check "a pipe, several threads" within paths.sorted 2 0
try "... and again" empty : dedup --threads 4 --state state < <(cat paths)
no_state
try "a Bloom filter" same_as first : dedup --kind bloom $exact --capacity 400k --state state first
try "... in the second run" same_as only.second : dedup --kind bloom $exact --capacity 400k --state state numbers
try "... whose kind and capacity need not be repeated" empty : dedup $exact --state state -o result numbers
check "an output file of a run without new lines" test -e result -a ! -s result
for other in --kind=cuckoo --fpp=0.1 --capacity=1k; do
  try "a state with another ${other%=*}" one_line 2 "'state' was begun with another ${other%=*}" : \
    dedup --state state $other numbers
done
no_state
run dedup --kind bloom --capacity 1k --stats --state state first
check "more lines than a Bloom filter was made for: the rate stays" \
  gawk '/^false-positive rate/ { exit !($3 <= $5) }' err
no_state
run dedup $rate --memory 4M --state state first
try "--memory in the second run" empty : dedup $rate --memory 4M --state state first
try "... when the state does not fit" one_line 2 "takes more than --memory allows" : dedup --memory 100K --state state first
ln -s state link
try "a symbolic link to the state" within only.second 2 0 : dedup --state link second
check "... stays one" test -L link -a ! -L state
rm link

# ---- the output file ----

no_state
printf 'cut o' >continued
"$tamis" dedup --kind bloom $exact --capacity 400k --state state newlines >>continued 2>err
"$tamis" dedup --state state first >>continued 2>>err
status=$?
check "a file that ends within a line is continued on a new one" \
  cmp -s continued <(printf 'cut o\n\n'; cat first)

no_state
run dedup --kind bloom $exact --capacity 400k --state state -o result first
check "with -o: the output is written" cmp -s result first
try "... and holds what is new" cmp -s result only.second : dedup --state state -o result second
cp state before
try "an error in the input" left 1 "cannot read '/proc/self/mem'" : dedup --state state -o result paths /proc/self/mem
check "... leaves the output, too" cmp -s result only.second
try "an output that cannot be made" left 1 "cannot write 'nowhere/result'" : dedup --state state -o nowhere/result paths
by=to_full try "a full disk for the lines" left 1 "No space left on device" : dedup --state state paths
(ulimit -f 100; "$tamis" dedup --state state numbers paths | wc -l) >out 2>err
status=1
check "no room for the state" left 1 "cannot write 'state': File too large"
to_head default dedup --state state paths
check "a closed pipe ends it in silence" ends_by 141
check "... leaves the state" cmp -s state before
rm -f state.lock

for pair in "input:state" "input:-o result state" "output:-o state paths"; do
  cp before state
  # shellcheck disable=SC2086
  run dedup --state state ${pair#*:}
  check "the state as ${pair%%:*}" test "$status" -ne 0
  check "... is untouched" cmp -s state before
done
no_state
try "the output would be the new state" one_line 1 "'state' is the state, and input or output" : \
  dedup --state state -o ./state paths
for output in "-o state.lock paths" "state.lock -o result" "paths"; do
  cp paths state.lock
  # shellcheck disable=SC2086
  try "another file of the lock's name: $output" one_line 1 "'state.lock' is needed as the lock of 'state'" : \
    dedup --state state $output
  check "... stays as it was" cmp paths state.lock
  rm state.lock
done
try "the output would be the lock" one_line 1 "'state.lock' is needed" : dedup --state state -o state.lock paths
"$tamis" dedup --state state paths >state.lock 2>err
status=$?
check "... by redirection" one_line 1 "'state.lock' is needed"
check "... makes no state" test -e state.lock -a ! -e state
rm state.lock
try "a state in no folder" one_line 1 "cannot lock 'new/state'" : dedup --state new/state paths
try "a device as state" one_line 1 "has to be a file" : dedup --state /dev/null paths
mkdir folder
try "a folder as state" one_line 1 "has to be a file" : dedup --state folder paths
usage "--save-every needs --state" dedup --save-every 5 paths
usage "--mode needs --state or --shared" dedup --mode 0640 -o result paths
usage "is there only at the end" dedup --state state --save-every 5 -o result paths
for bad in x -1 1e10 '' 5s; do
  usage "--save-every: '$bad'" dedup --state state --save-every="$bad" paths
done

# ---- one run at a time ----

# start_state ARGUMENTS...: such a run waits for lines.  (If there is a state, it has locked that, and writes nothing.)
has_begun() { [ -s slow.out ] || grep -q . ./*.tamis-* || { [ -e state ] && [ -e state.lock ]; }; } 2>/dev/null
start_state() { start_slow has_begun "$tamis" dedup $rate --state state "$@" slow; }
seq 1000 >thousand
for _ in 1 2; do # without a state, and with one
  start_state
  try "two runs at a time" one_line 1 "'state' is in use by another run" : dedup --state state paths
  check "... the second one writes nothing" silent_output
  end_slow KILL
  rm -f state
  try "a lock that was left behind by kill -9 locks nothing" within thousand 1 0 : dedup $rate --state state thousand
  check "... and is removed" test ! -e state.lock
done

# ---- signals ----

for signal in INT TERM; do
  no_state
  start_state
  end_slow $signal
  check "SIG$signal ends a run, as the shell sees" ends_by $((128 + $(kill -l $signal)))
  check "... what was read is written" cmp -s slow.out thousand
  try "... and remembered" empty : dedup --state state thousand
  check "... with nothing beside the state" no_rest
done
no_state
start_state -o result
end_slow TERM
check "SIGTERM ends a run with -o at once" ends_by 143
check "... without a state" test ! -e state
rm -f state.lock
# The reader of the pipe does not read, so a gentle end would wait for ever.
mkfifo stuck
in_background 'exec 3<stuck; exec sleep 60'
env --default-signal "$tamis" dedup --state state numbers >stuck 2>err &
pid=$!
wait_for test -e state.lock
sleep 2
kill -TERM "$pid"
sleep 0.2
check "a run that cannot write goes on after SIGTERM" kill -0 "$pid"
kill -INT "$pid"
wait "$pid" 2>/dev/null
status=$?
end_background
check "... and is ended by a second signal" ends_by 130

# ---- saves while it runs ----

# The lines of the first keys cannot be written, as the reader of the pipe does not read.  So the
# state must not have these keys.
no_state
in_background 'exec 3<stuck; exec sleep 60'
env --default-signal "$tamis" dedup $rate --threads 2 --state state --save-every 0.01 numbers >stuck 2>err &
pid=$!
for _ in $(seq 100); do ls ./*.tamis-* >/dev/null 2>&1 && break; sleep 0.05; done
sleep 0.3
kill -KILL "$pid"
wait "$pid" 2>/dev/null
end_background
check "a save waits until what it contains is written" test ! -e state

no_state
start_state --save-every 0.1
wait_for test -e state
check "--save-every: the state is saved while the run waits for input" test -e state
holds_most() { [ "$("$tamis" query state thousand 2>/dev/null | wc -l)" -ge 999 ]; }
wait_for holds_most # the first save may have come before the last lines
try "... and holds what was written" within thousand 1 0 : query state thousand
end_slow KILL

head -n 60000 numbers >some
sort some >some.sorted

# slowly: the input in parts, so that the state is saved between them.
split -n l/20 some part.
slowly() { for part in part.*; do cat "$part"; sleep 0.005; done; }
if strace_runs; then
  rm -f state
  strace -f -qq -o trace -e trace=fsync -e inject=fsync:signal=TERM:when=2 \
    "$tamis" dedup $rate --state state thousand >out 2>err
  status=$?
  check "a first SIGTERM that comes while the state is saved" ends_by 143
  try "... lets it be saved" silent_output : dedup $rate --state state thousand
else
  skip "a first SIGTERM while the state is saved" "strace does not run"
fi

# killed_runs MILLISECONDS ARGUMENTS...: kills runs after ever longer times, until one reaches its end.
killed_runs() {
  local step=$1 delay=$1 killed=0 saved=0
  shift
  no_state
  : >all
  while :; do
    slowly | timeout -s KILL "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))" \
      "$tamis" dedup $rate --capacity 1k --state state --save-every 0.001 "$@" >>all 2>err
    status=${PIPESTATUS[1]}
    [ "$status" -ne 0 ] || break
    [ "$status" -eq 137 ] || { echo "# status $status: $(cat err)"; return 1; }
    killed=$((killed + 1))
    [ "$(find . -name '*.tamis-*' | wc -l)" -le 1 ] || { echo "# killed runs leave ever more"; return 1; }
    if [ -e state ]; then
      saved=$((saved + 1))
      # Whatever the state holds has been written.
      "$tamis" query state some 2>err | sort >in.state
      sort -u all | comm -13 - in.state >lost
      [ "$(wc -l <lost)" -le 2 ] || { echo "# $(wc -l <lost) lines in the state, but not written"; return 1; }
    fi
    delay=$((delay + step + delay / 4))
    [ $delay -lt 20000 ] || return 1
  done
  echo "# $killed runs killed, $saved left a state"
  # Nothing is lost: all runs together have written all lines of the input, and no others but such as were cut off.
  sort -u all >seen
  [ "$(comm -13 seen some.sorted | wc -l)" -le 2 ] && [ "$(comm -23 seen some.sorted | wc -l)" -le 40 ] ||
    { echo "# lines are lost, or new"; return 1; }
  no_rest && "$tamis" dedup --state state some >out && [ ! -s out ]
} 2>/dev/null
check "kill -9 at many moments, one thread" killed_runs 10
check "kill -9 at many moments, four threads" killed_runs 13 --threads 4

# (tool.syscalls kills it at each system call.)
if strace_runs; then
  # The output is on the disk before the state is; the state's file before its name.
  no_state
  strace -f -o log -e trace=fsync,renameat "$tamis" dedup $rate --state state -o result some 2>err
  sed -E 's/^[0-9]+ +//; s/\(.*"(state|result)".*/ \1/; s/\(.*//' log | grep -v '^+\|resumed' >order
  check "what is synchronised, and in which order" \
    test "$(tr '\n' ' ' <order)" = "fsync renameat result fsync fsync renameat state fsync "
else
  skip "what is synchronised" "strace does not run"
fi

finish
