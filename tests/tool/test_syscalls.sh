#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests the command-line program with failing system calls: test_syscalls.sh PATH-TO-TAMIS [full]
#
# Each command below runs once under strace, which shows its system calls, and then once for each of
# these, which fails.  Either the failure does not matter: the output is right and the status is
# 0.  Or the status is 1, one line gives the reason, and the output is a beginning of the right
# one.  EINTR and EAGAIN must not matter.  By default each call fails in one way, with "full" in all
# ways.  Then a signal ends the command at each of them: what it has written by then is right, too.
#
# The program is linked statically, as the dynamic loader would make calls of its own.  The calls
# that the C library makes before main do not fail here.
# shellcheck disable=SC2002  # pipes are tested
mode=${2:-short}
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

if ! strace -o log -e trace=none true 2>err; then
  cat err
  if grep -q 'PTRACE\|Operation not permitted' err; then
    echo "1..0 # SKIP ptrace is not permitted on this machine"
    exit 77
  fi
  echo "not ok 1 - strace runs"
  exit 1
fi
# Only the calls that strace looks at stop the program then, where the kernel allows that.
filtered=()
strace -f --seccomp-bpf -o log -e trace=none true >err 2>&1 && [ ! -s err ] && filtered=(--seccomp-bpf)

# ---- inputs, large enough for several reads and for a filter to grow ----

gawk 'BEGIN { srand(1); for (i = 0; i < 5000; i++)
  printf "%0100d\n", int(rand() * 4000) }' >a
gawk 'BEGIN { srand(2); for (i = 0; i < 3000; i++)
  printf "%0100d\n", int(rand() * 8000) }' >b
gawk '!seen[$0]++' a >a.distinct
gawk '!seen[$0]++' a b >ab.distinct
gawk 'FNR == NR { in_a[$0]; next } $0 in in_a' a b >common
gawk 'FNR == NR { in_b[$0]; next } $0 in in_b' b a >common.reversed
sort a.distinct >a.distinct.sorted
sort ab.distinct >ab.distinct.sorted
sort common >common.sorted
exact=(--fpp 1e-11)
cuckoo=(--kind cuckoo --fpp 5e-8)

# ---- one run ----

# traced COMMAND...: runs it under strace with the options in $options, and its messages in err.
traced() { timeout 60 env --default-signal=PIPE strace -f -o log "${options[@]}" "$@" 2>err; }

# The commands are functions, which write to out; $shape is the name of one.
dedup_file() { traced "$tamis" dedup "${exact[@]}" a >out; }
dedup_redirected() { traced "$tamis" dedup "${exact[@]}" --capacity 4k --quiet <a >out; }
dedup_pipe() { cat a | traced "$tamis" dedup "${exact[@]}" >out; }
dedup_output() {
  echo precious >out
  traced "$tamis" dedup "${exact[@]}" -o out a b
}
dedup_threads() { traced "$tamis" dedup "${exact[@]}" --threads 3 a - <b >out; }
dedup_levels() { traced "$tamis" dedup "${exact[@]}" --capacity 20 a >out; }
dedup_cuckoo() { traced "$tamis" dedup "${cuckoo[@]}" --capacity 1 a >out; }
dedup_stats() { traced "$tamis" dedup "${exact[@]}" --stats a >out; }
common_files() { traced "$tamis" common "${exact[@]}" a b >out; }
common_pipe() { cat b | traced "$tamis" common "${exact[@]}" --threads 2 a - >out; }
common_memory() {
  rm -f out ./*.tamis-* # of a run that liburcu ended
  traced "$tamis" common "${cuckoo[@]}" --memory 1M --capacity 5k -o out b a
}
common_three() { traced "$tamis" common "${exact[@]}" a a b >out; }
build_list() {
  rm -f out ./*.tamis-*
  traced "$tamis" build "${build[@]}" a -o out
}
query_mapped() { traced "$tamis" query list b >out; }
query_loaded() { traced "$tamis" query loaded b >out; }
merge_lists() {
  rm -f out ./*.tamis-*
  traced "$tamis" merge list list.b -o out
}
dedup_state() { # the state is in the middle between two runs
  rm -f state.lock ./*.tamis-*
  cp state.a state
  traced "$tamis" dedup --state state a b >out
}
dedup_state_output() {
  rm -f state.lock ./*.tamis-*
  cp state.a state
  echo precious >out
  traced "$tamis" dedup --state state -o out a b
}
dedup_new_state() {
  rm -f state state.lock ./*.tamis-*
  traced "$tamis" dedup "${cuckoo[@]}" --capacity 4k --state state --save-every 0.001 a >out
}
dedup_shared() {
  rm -f seen ./*.tamis-*
  echo "a line before" >out
  traced "$tamis" dedup "${exact[@]}" --capacity 4k --shared seen a >>out
}
# The index that it writes is right if the key, which is in both files, is found in them.
key=$(head -n 1 common)
index_new() {
  rm -f index out ./*.tamis-*
  local code
  traced "$tamis" index -o index a b
  code=$?
  [ ! -e index ] || "$tamis" grep index "$key" >out 2>grep.err
  return $code
}
index_which() { traced "$tamis" which a.index "$key" >out; }
index_grep() { traced "$tamis" grep a.index "$key" >out; }
print_help() { traced "$tamis" dedup --help >out; }
print_version() { traced "$tamis" --version >out; }

# errors_of SYSCALL: the ways in which it may fail, the likeliest first.
errors_of() {
  case $1 in
  openat) echo EMFILE EINTR EIO ENOMEM ;;
  read) echo EIO EINTR EAGAIN ;;
  pread64) echo EIO EINTR ;;
  write) echo ENOSPC EINTR EAGAIN EIO EPIPE ;;
  close) echo EIO EINTR EDQUOT ;;
  ftruncate) echo EIO EINTR ;;
  newfstatat | faccessat2 | fstat | readlink) echo EIO ENOMEM ;;
  fsync) echo EIO EINTR EROFS ;;
  renameat) echo EIO EINTR EBUSY ;;
  # Without it, files are named by the process, and no leftovers are removed.
  flock | fstatfs) echo EIO EINTR ;;
  unlinkat) echo EIO EBUSY ;;
  mmap | munmap | mremap | mprotect | madvise) echo ENOMEM ;;
  clone3 | clone) echo EAGAIN ENOMEM ;;
  clock_nanosleep | poll) echo EINTR ;;
  getrandom) echo ENOSYS EINTR ;;
  lseek) echo ESPIPE EINVAL ;;
  ioctl) echo ENOTTY EIO ;;
  fcntl | dup2) echo EINVAL EINTR ;;
  # These do not fail with the arguments that the C library and liburcu use, which both end the
  # process if they do.  (A futex call that waits may be interrupted, but not one that wakes.)
  futex | rt_sigprocmask | rt_sigaction | membarrier | execve | exit | exit_group) ;;
  # brk returns the old end of the heap if it fails, and no error, which is all that strace can
  # inject: the C library takes that for an address.  (Limits of memory make it fail below.)
  brk) ;;
  rseq | set_robust_list | set_tid_address | arch_prctl) ;;
  *) echo EPERM ;;
  esac
}

# must_go_on SYSCALL ERROR: whether the program has to repeat the call.  (After a failed close the
# state of the descriptor is unknown.)
must_go_on() {
  case $1:$2 in
  close:* | clone*:* | fcntl:*) return 1 ;;
  *:EINTR | read:EAGAIN | write:EAGAIN) return 0 ;;
  *) return 1 ;;
  esac
}

# by_stdio CALL: whether it is a call of the C library, which reports an interrupted one as an
# error.  (A signal does not interrupt it: those that have a handler end the program.)
by_stdio() { [[ $shape == print_* || $shape == index_* && $1 == *" read("* ]] || grep -q 'write(2,' <<<"$1"; }

# right EXPECTED: the output is this; with several threads, in any order.
right() {
  case $shape in
  *threads | common_pipe) sort out | cmp -s - "$1" ;;
  *) cmp -s out "$1" ;;
  esac
}

# right_so_far EXPECTED: the output has no wrong line, none twice, and with one thread no gap.
right_so_far() {
  case $shape in
  # After an error in one file, index_grep searches the others.
  *threads | common_pipe | index_which | index_grep) [ -z "$(sort out | comm -23 - "$1")" ] ;;
  # The old file stands, or the new one is complete, and nothing else is left but a lock.
  dedup_output | dedup_state_output) { grep -qx precious out || cmp -s out "$1"; } && no_new_file ;;
  common_memory | build_list | merge_lists | index_new) { [ ! -e out ] || cmp -s out "$1"; } && no_new_file ;;
  *) cmp -n "$(stat -c %s out)" out "$1" ;;
  esac
}

# fails_rightly: whether the last run ended with the status of a failure, and left no state with lines
# that were not written.
fails_rightly() {
  case $shape in
  query* | index_which | index_grep) [ "$status" -eq 2 ] ;;
  merge* | index_new | dedup*state* | dedup_shared) [ "$status" -eq 1 ] || [ "$status" -eq 2 ] ;;
  *) [ "$status" -eq 1 ] ;;
  esac || { echo "# status $status"; return 1; }
  state_is_right
}
state_is_right() {
  [[ $shape != dedup_state* ]] || cmp -s state state.a || cat state.a.lines out | state_is_within
  [ "$shape" != dedup_new_state ] || [ ! -e state ] || state_is_within <out
}
state_is_within() {
  sort -u >written
  "$tamis" query state a b | sort -u | comm -23 - written >unwritten
  [ ! -s unwritten ] || { echo "# lines in the state that were not written"; return 1; }
}

# injected_calls: those of the last run that strace let fail, a line each, also where it shows a call in two
# parts, as it does when another thread makes one in between.
injected_calls() {
  gawk '
    sub(/ <unfinished \.\.\.>$/, "") { begun[$1] = $0; next }
    / resumed>/ { thread = $1; sub(/^.* resumed>/, ""); $0 = begun[thread] $0 }
    /INJECTED/' log
}

# judge EXPECTED SYSCALL ERROR: whether the program reacted rightly to this error of the last run.
judge() {
  local injected
  injected=$(injected_calls)
  [ -n "$injected" ] || return 0 # not every run makes the same calls
  # The library has checked that there is memory for liburcu's list of threads.  If liburcu does not
  # get it after that, it ends the process (docs/internals/growth.md).
  grep -q 'mmap(NULL, 2080,' <<<"$injected" && return 0
  if [ "$status" -eq 0 ]; then
    right "$1" && ! grep -q 'write(2,' <<<"$injected" && return
    echo "# status 0, but the output is wrong, or a summary is lost"
  elif [ "$3" = EPIPE ] && grep -q 'write([^2]' <<<"$injected"; then
    # A closed pipe ends the program by SIGPIPE, in silence.
    [ "$status" -eq 141 ] && [ ! -s err ] && right_so_far "$1" && return
    echo "# status $status"
  elif ! fails_rightly; then
    echo "# ^ after a failure"
  elif must_go_on "$2" "$3" && ! by_stdio "$injected"; then
    echo "# the call was not repeated"
  elif ! right_so_far "$1"; then
    echo "# the output so far is wrong"
  elif grep -q 'write(2,' <<<"$injected" ||
    { [ "$(grep -vc 'false-positive rate of' err)" -eq 1 ] &&
      grep -q "^tamis: .*\('\|memory\|filter\|signal\)" err; }; then
    return
  else
    echo "# not one line that gives the reason"
  fi
  sed 's/^/#   /' - err <<<"$injected"
  return 1
}

# ---- the calls of a command ----

# Prints NAME FIRST LAST for each system call that a thread makes after main has begun.  LAST is the
# number of its last call, in the thread that makes most; FIRST is the number of the first one after
# main has begun.  The first call of main is fcntl(2, F_GETFD).
calls() {
  gawk '
    / resumed>/ { next }
    match($2, /^[a-z0-9_]+\(/) {
      name = substr($2, 1, RLENGTH - 1)
      n = ++calls[$1, name]
      if ($2 == "fcntl(2," && $3 ~ /^F_GETFD/) begun = 1
      if (!begun) before[name] = n
      else if (n > most[name]) most[name] = n
    }
    END { for (name in most) print name, before[name] + 1, most[name] }' log | sort
}

# fail_each EXPECTED: lets each call of the command fail in turn.
fail_each() {
  local expected=$1 name first last n error runs=0 bad=0 errors
  options=(-e 'trace=all')
  $shape
  status=$?
  right "$expected" || { echo "# without a failure: status $status"; sed 's/^/#   /' err; return 1; }
  calls >"calls.$shape"
  while read -r name first last; do
    read -r -a errors <<<"$(errors_of "$name")"
    [ ${#errors[@]} -gt 0 ] || continue
    for ((n = first; n <= last; n++)); do
      [ "$mode" = full ] || [ $((n - first)) -lt 4 ] || break
      for error in "${errors[@]}"; do
        # In the short run the errors take turns.
        [ "$mode" = full ] || [ "$error" = "${errors[(n - first) % ${#errors[@]}]}" ] || continue
        options=("${filtered[@]}" -e "trace=$name" -e "inject=$name:error=$error:when=$n")
        $shape 2>/dev/null
        status=$?
        runs=$((runs + 1))
        judge "$expected" "$name" "$error" || { bad=$((bad + 1)); echo "# ^ $name $n $error"; }
      done
    done
  done <"calls.$shape"
  echo "# $runs runs"
  [ $bad -eq 0 ]
}

all() { # SHAPE EXPECTED
  shape=$1
  check "$shape: each system call fails" fail_each "$2"
}

all dedup_file a.distinct
all dedup_redirected a.distinct
all dedup_pipe a.distinct
all dedup_output ab.distinct
all dedup_threads ab.distinct.sorted
all dedup_levels a.distinct
all dedup_cuckoo a.distinct
all dedup_stats a.distinct
all common_files common
all common_pipe common.sorted
all common_memory common.reversed
"$tamis" dedup --help >help
"$tamis" --version >version
# The tests above have shown these commands to be right.
build=(--capacity 8k --fpp 1e-11 --seed 1)
"$tamis" build "${build[@]}" a -o list
"$tamis" build "${build[@]}" b -o list.b
"$tamis" merge list list.b -o merged
"$tamis" build --capacity 4k "${cuckoo[@]}" a -o loaded
"$tamis" dedup --kind bloom "${exact[@]}" --capacity 10k --state state.a a >state.a.lines
gawk 'FNR == NR { in_a[$0]; next } !($0 in in_a || seen[$0]++)' a b >b.new
all common_three common
all build_list list
all merge_lists merged
all query_mapped common
all query_loaded common
all dedup_state b.new
all dedup_state_output b.new
all dedup_new_state a.distinct
{ echo "a line before"; cat a.distinct; } >appended
all dedup_shared appended
grep -nFx "$key" a b | sed 's/:.*//' | uniq >key.files
grep -Fx "$key" a b >key.lines
all index_new key.lines
"$tamis" index -o a.index a b
all index_which key.files
all index_grep key.lines
all print_help help
all print_version version

# ---- a signal at each system call ----

# stopped_rightly EXPECTED SIGNAL: after SIGTERM nothing is left over, after SIGKILL one file at most.
stopped_rightly() {
  [ "$status" -eq $((128 + $(kill -l "$2"))) ] || { echo "# status $status"; return 1; }
  if [ "$2" = KILL ]; then
    [ "$(find . -name '*.tamis-*' | wc -l)" -le 1 ] || { echo "# more than one file is left"; return 1; }
    rm -f -- ./*.tamis-*
  fi
  right_so_far "$1" && state_is_right
}

# stop_each EXPECTED SIGNAL: the signal comes at each call that fail_each has found.
stop_each() {
  local expected=$1 signal=$2 name first last n runs=0 bad=0
  while read -r name first last; do
    [ "$name" != exit_group ] || continue
    for ((n = first; n <= last; n++)); do
      [ "$mode" = full ] || [ $((n - first)) -lt 3 ] || break
      options=("${filtered[@]}" -e "trace=$name" -e "inject=$name:signal=$signal:when=$n")
      $shape 2>/dev/null
      status=$?
      runs=$((runs + 1))
      if [ "$status" -eq 0 ]; then
        right "$expected" && no_new_file # not every run makes the same calls
      else
        stopped_rightly "$expected" "$signal"
      fi || { bad=$((bad + 1)); echo "# ^ $name $n"; }
    done
  done <"calls.$shape"
  echo "# $runs runs"
  [ $bad -eq 0 ]
} 2>/dev/null

for signal in TERM KILL; do
  for pair in dedup_output:ab.distinct build_list:list merge_lists:merged dedup_state:b.new dedup_state_output:b.new \
    dedup_new_state:a.distinct; do
    shape=${pair%:*}
    check "$shape: SIG$signal at each system call" stop_each "${pair#*:}" $signal
  done
done

# ---- short reads and writes ----

# done_before CALL N: the bytes that the worker has transferred before its N-th such call, in the
# good run.
done_before() {
  gawk -v call="$1" -v n="$2" '
    $2 ~ "^" call "\\([01]," && --n > 0 { sum += $NF }
    END { print sum + 0 }' log.good
}

transfers() { grep -c "^[0-9]* *$1([01]," log.good; }

# strace does not make the call, but reports that one byte, an x, was read.
short_reads() {
  local n at
  for ((n = 1; n <= $(transfers read); n++)); do
    at=$(done_before read $n)
    { head -c "$at" a; printf x; tail -c +$((at + 1)) a; } | gawk '!seen[$0]++' >expected
    options=("${filtered[@]}" -e trace=read -e "inject=read:retval=1:poke_exit=@arg2=78:when=$n")
    $shape
    status=$?
    same_as expected || { echo "# ^ read $n at $at"; return 1; }
  done
}

# strace does not make this call either, so the byte that it reports as written is missing.
short_writes() {
  local n at
  for ((n = 1; n <= $(transfers write); n++)); do
    at=$(done_before write $n)
    { head -c "$at" a.distinct; tail -c +$((at + 2)) a.distinct; } >expected
    options=("${filtered[@]}" -e trace=write -e "inject=write:retval=1:when=$n")
    $shape
    status=$?
    same_as expected || { echo "# ^ write $n at $at"; return 1; }
  done
}

shape=dedup_redirected
options=("${filtered[@]}" -e "trace=read,write")
$shape
cp log log.good
check "there are several reads and writes" test "$(transfers read)" -ge 3 -a "$(transfers write)" -ge 2
check "a read of one byte" short_reads
check "a write of one byte" short_writes

# ---- memory that is used up ----

# Memory limits of all sizes let each of the allocations be the first one that fails.
little_memory() { # EXPECTED ARGUMENTS...
  local expected=$1 kib step=20 good=0 bad=0
  shift
  [ "$mode" = full ] && step=4
  for ((kib = 1000; kib < 16000 && good < 3; kib += step)); do
    # shellcheck disable=SC2016 # for the shell inside
    { timeout 60 bash -c 'ulimit -v "$0" && exec "$@"' $kib "$tamis" "$@" >out 2>err; } 2>/dev/null
    status=$?
    if [ $status -eq 0 ]; then
      cmp -s out "$expected" || { echo "# status 0 with a wrong output"; return 1; }
      good=$((good + 1))
    elif [ $status -eq 1 ]; then
      shape=dedup_file
      one_line 1 memory && right_so_far "$expected" || { echo "# ^ $kib KiB"; return 1; }
      bad=$((bad + 1))
    elif ! [ $good -eq 0 ] || ! [ $bad -eq 0 ]; then
      echo "# status $status with $kib KiB"
      return 1
    fi
  done
  echo "# $bad runs failed, $good did not"
  [ $good -gt 0 ] && [ $bad -gt 0 ]
}
check "dedup with little memory" little_memory a.distinct dedup "${exact[@]}" --quiet a
check "dedup with little memory for levels" little_memory a.distinct dedup "${exact[@]}" --quiet --capacity 20 a
check "dedup with little memory for growth" little_memory a.distinct dedup "${cuckoo[@]}" --quiet --capacity 1 a

finish
