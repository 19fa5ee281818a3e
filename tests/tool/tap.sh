# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: MIT
#
# Functions and inputs of the tests of the command-line program.  A test, whose first argument is the path of the
# program, sources this file, which changes to a temporary folder.  Its last command is `finish`.
set -u
export LC_ALL=C

tamis=$(realpath "${1:?the path of the command is missing}")
here=$(dirname "$(realpath "$0")") # the folder of the tests

number=0
failures=0
finish() {
  echo "1..$number"
  [ $failures -eq 0 ]
}

# check NAME COMMAND...: the test passes if the command succeeds.
check() {
  local name=$1
  shift
  number=$((number + 1))
  if "$@"; then
    echo "ok $number - $name"
  else
    echo "not ok $number - $name"
    failures=$((failures + 1))
  fi
}

skip() {
  number=$((number + 1))
  echo "ok $number - $1 # SKIP $2"
}

# run ARGUMENTS...: runs tamis, with its output in out, its messages in err and its status in
# $status.
run() {
  "$tamis" "$@" >out 2>err
  status=$?
}

# sorted ARGUMENTS...: the same, with its output sorted.
sorted() {
  run "$@"
  sort -o out out
}

# try NAME CHECK [WORD ...] : ARGUMENTS...: what CHECK says of a run of tamis with these arguments, by `run` or by
# what $by names.
try() {
  local name=$1 words=()
  shift
  while [ "$1" != : ]; do
    words+=("$1")
    shift
  done
  "${by:-run}" "${@:2}"
  check "$name" "${words[@]}"
}

# usage TEXT ARGUMENTS...: the command line is refused, with this text.
usage() { try "usage: tamis ${*:2}" one_line 2 "$1" : "${@:2}"; }

# same_as EXPECTED: the last run succeeded without a message and wrote exactly this.
same_as() {
  [ "$status" -eq 0 ] && [ ! -s err ] && cmp -s out "$1" && return
  echo "# status $status, messages: $(head -c 300 err)"
  cmp out "$1" | sed 's/^/# /'
  return 1
}

# within EXPECTED LESS MORE: as same_as, but up to LESS lines may be missing, and up to MORE added.
within() {
  local less more
  less=$(diff -a out "$1" | grep -ac '^>')
  more=$(diff -a out "$1" | grep -ac '^<')
  [ "$status" -eq 0 ] && [ ! -s err ] && [ "$less" -le "$2" ] && [ "$more" -le "$3" ] && return
  echo "# status $status, $less lines missing, $more too many, messages: $(head -c 300 err)"
  return 1
}

# one_line STATUS TEXT: the last run ended with this status and one message, "tamis: ...TEXT...".
one_line() {
  [ "$status" -eq "$1" ] && [ "$(wc -l <err)" -eq 1 ] && grep -q '^tamis: ' err &&
    grep -qF -- "$2" err && return
  echo "# status $status, expected $1 and one line with \"$2\"; messages:"
  sed 's/^/#   /' err
  return 1
}

# ends_by STATUS: the last run ended with this status, and without a message.
ends_by() {
  [ "$status" -eq "$1" ] && [ ! -s err ] && return
  echo "# status $status, messages: $(head -c 300 err)"
  return 1
}

silent_output() { [ ! -s out ]; }
empty() { [ "$status" -eq 0 ] && silent_output; }

# output_is TEXT: the last run wrote these lines.
output_is() {
  [ "$(cat out)" = "$1" ] && return
  echo "# not '$1' but '$(head -c 300 out)'"
  return 1
}

# figure_is NAME NUMBER: a figure of the summary of the last run of `index`.
figure_is() {
  local figure
  figure=$(sed -nE "s/^$1  +([0-9]+).*/\1/p" err)
  [ "$figure" = "$2" ] || { echo "# $1 is '$figure', not $2"; return 1; }
}
strace_runs() { strace -o /dev/null -e trace=none true 2>/dev/null; }
mode_is() { [ "$(stat -c %a "$1")" = "$2" ]; }
no_new_file() { [ -z "$(find . -name '*.tamis-*')" ]; }
no_rest() { no_new_file && [ -z "$(find . -name '*.lock')" ]; }
row() { sed -n "s/^$1  *\([^ ]*\).*/\1/p" "${2:-out}"; } # NAME [FILE]: the first word of a figure
in_memory() { # SIZE: according to the summary, the filter took no more
  gawk -v most="$1" '/^filter/ { unit = $3 == "KiB" ? 1024 : $3 == "MiB" ? 1048576 : 1
    found = $2 * unit <= most * 1.005 } END { exit !found }' err
}

# ---- a temporary folder, and the inputs of several tests ----

dir=$(mktemp -d) || exit 1
background=()
# Nothing outlives the test: what it started in the background ends with it.
clean_up() {
  local group
  for group in "${background[@]}"; do kill -KILL -- "-$group"; done 2>/dev/null
  rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
cd "$dir" || exit 1

# in_background COMMAND: a shell runs it.  It is a process group of its own, and ends after a minute also
# when the test is killed: a writer to a FIFO that nobody opens would otherwise wait for ever.
in_background() {
  timeout -s KILL 60 sh -c "$1" &
  background+=($!)
}

# wait_for COMMAND...: waits until it succeeds, for half a minute at most.
wait_for() {
  for _ in $(seq 600); do
    "$@" && return
    sleep 0.05
  done
}

# start_slow BEGUN COMMAND...: the command, which reads the FIFO `slow`, with its process in $pid; it has done what
# BEGUN says, and waits for more than 1000 lines and a part.  (The line ends when there is a file `go`.)
start_slow() {
  [ -p slow ] || mkfifo slow
  : >slow.out
  in_background 'exec 3>slow; seq 1000 >&3; printf unfinished >&3; while [ ! -e go ]; do sleep 0.05; done
    echo >&3; exec sleep 60'
  env --default-signal "${@:2}" >>slow.out 2>slow.err &
  pid=$!
  wait_for "$1"
}
end_background() {
  kill -KILL -- "-${background[-1]}"
  wait "${background[-1]}"
} 2>/dev/null
end_slow() { # [SIGNAL]
  [ -z "${1:-}" ] || kill -s "$1" "$pid"
  wait "$pid"
  status=$?
  end_background
  cp slow.err err
} 2>/dev/null

# With several threads an add may meet others in its midst that hide its line, rarely, and rather where threads
# wait for a processor: docs/internals/correctness.md, B.  No line is written twice.
hidden=2
# At this rate a filter errs once in some 50,000 runs of the suite, so lines can be compared exactly.
exact=--fpp=1e-11
# A cuckoo filter does not reach such rates.  At this one, more than two of some 100000 lines are
# wrong once in 10^7 runs.
cuckoo='--kind=cuckoo --fpp=5e-8'

exact_dedup() { gawk '!seen[$0]++' "$@"; }

gawk -v lines="${lines:-200000}" 'BEGIN { srand(1); for (i = 0; i < lines; i++)
  printf "/srv/archive/%d/file-%06d.txt\n", i % 13, int(rand() * lines * 0.6) }' >paths
exact_dedup paths >paths.expected
sort -u paths >paths.sorted
seq 1 300000 >numbers

# ---- checks for one thread and for several: each takes the number of threads ----

grow_chain() { # reads `many`, in which each line occurs twice
  run dedup --threads "$1" --capacity 10 --fpp 1e-4 many
  sort out | uniq -d >twice
  local missing=$((100000 - $(wc -l <out)))
  check "capacity 10, $1 thread(s): no line twice" test ! -s twice
  # At most 10 are expected to be missing; 40 are by chance once in 10^11 runs.
  check "capacity 10, $1 thread(s): $missing missing of 100000" test $missing -le 40
  check "capacity 10, $1 thread(s): only lines of the input" \
    test -z "$(sort -u many | comm -13 - <(sort out))"
}

too_many_lines() {
  try "cuckoo --memory: too small for the lines there are, $1 thread(s)" \
    one_line 1 "more distinct lines than fit into a cuckoo filter made for 20.0 k lines" : \
    common --kind cuckoo --memory 64K --capacity 20k --quiet --threads "$1" a b
  check "... nothing written" silent_output
}

has_nearly_all() { # EXPECTED LESS: `out`, whatever the status; both are sorted
  [ "$(comm -13 out "$1" | wc -l)" -le "$2" ] && [ -z "$(comm -23 out "$1")" ]
}

read_error() {
  try "a read error, $1 thread(s)" one_line 1 "cannot read '/proc/self/mem'" : \
    dedup $exact --threads "$1" paths /proc/self/mem
  sort -o out out
  check "... what was decided before it is written" has_nearly_all paths.sorted $(($1 > 1 ? hidden : 0))
}

# to_full ARGUMENTS...: a run whose output finds no room.
to_full() {
  "$tamis" "$@" >/dev/full 2>err
  status=$?
}

full_disk() {
  by=to_full try "a full disk, $1 thread(s)" one_line 1 "'standard output': No space left on device" : \
    dedup --threads "$1" paths
}

# in_small_files ARGUMENTS...: a run that cannot write files of more than 50 KiB.
in_small_files() {
  (ulimit -f 100; exec env --default-signal "$tamis" "$@" >out 2>err)
  status=$?
}

large_file() {
  by=in_small_files try "a limit on the size of files, $1 thread(s)" one_line 1 "'standard output': File too large" : \
    dedup ${exact:?} --threads "$1" paths
}

# to_head default|ignore ARGUMENTS...: a run whose reader leaves after a line, where SIGPIPE is treated so.
to_head() {
  { env "--$1-signal=PIPE" "$tamis" "${@:2}" 2>err; echo $? >status; } | head -n 1 >out
  status=$(cat status)
}

closed_pipe() {
  to_head default dedup --threads "$1" paths numbers
  check "a closed pipe ends it in silence, $1 thread(s)" ends_by 141
  to_head ignore dedup --threads "$1" paths numbers
  check "... and is an error where SIGPIPE is ignored" one_line 1 "'standard output': Broken pipe"
}
