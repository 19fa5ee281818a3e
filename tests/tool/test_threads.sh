#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests that the command-line program does the same with several threads as with one:
#   test_threads.sh PATH-TO-TAMIS [short]
# It is the part of the tests that ThreadSanitizer should see; test_tool.sh has the rest.  With
# "short", it tries one number of threads, fewer lines and fewer runs.
# shellcheck disable=SC2002  # pipes are tested
some_threads=(2 8) all_threads=(2 3 8 0) capacities=(1 10 1k) runs=10
[ "${2:-}" != short ] || { some_threads=(4) all_threads=(4) capacities=(10) runs=3 lines=40000; }
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

sort -R --random-source=numbers paths | head -n 50000 >a
{ cat paths; seq 1 100000; printf 'one\n\n'; } >b
grep -Fxf a b | sort >in_both
head -n 50000 numbers | sort >fewer
gawk 'BEGIN { for (i = 0; i < 200000; i++) print "line " i % 100000 }' >many
by=sorted

for kind in bloom cuckoo; do
  # shellcheck disable=SC2206  # $cuckoo is two words
  case $kind in bloom) of=("$exact") some=0 ;; cuckoo) of=($cuckoo) some=2 ;; esac
  for threads in "${all_threads[@]}"; do
    try "$kind: $threads threads write the same lines" within paths.sorted $hidden 0 : \
      dedup "${of[@]}" --threads "$threads" paths
  done
  for threads in "${some_threads[@]}"; do
    for capacity in "${capacities[@]}"; do
      try "$kind: capacity $capacity grows to 50000, $threads threads" within fewer $hidden 0 : \
        dedup "${of[@]}" --threads "$threads" --capacity "$capacity" fewer fewer
    done
    try "$kind: common, $threads threads, far more lines in A than expected" within in_both 0 "$some" : \
      common "${of[@]}" --threads "$threads" --capacity 20 a b
  done
done
try "a pipe named - with several threads" within paths.sorted $hidden 0 : dedup $exact --threads 4 - < <(cat paths)
split -n l/50 -a 3 paths part.
try "more files than threads" within paths.sorted $hidden 0 : dedup $exact --threads 4 part.*
for threads in "${some_threads[@]}"; do
  grow_chain "$threads"
done
for _ in $(seq "$runs"); do
  # shellcheck disable=SC2086
  run dedup $cuckoo --threads 8 --capacity 10 fewer fewer
  sort out | uniq -d >twice
  [ ! -s twice ] || break
done
check "cuckoo: no line twice while 8 threads grow it" test ! -s twice
for _ in $(seq "$runs"); do
  rm -f state
  try "a state is saved while 4 threads add" within paths.sorted $hidden 0 : \
    dedup --fpp 5e-8 --capacity 1k --threads 4 --state state --save-every 0.001 < <(cat paths)
  try "... and has all" silent_output : dedup --threads 4 --state state paths
done

# ---- errors ----

by=run
too_many_lines 4
read_error 4
full_disk 4
large_file 4
closed_pipe 4

finish
