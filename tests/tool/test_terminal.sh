#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What the command-line program draws on a terminal: test_terminal.sh PATH-TO-TAMIS
# Exits 77, which CTest shows as skipped, where no pseudo-terminal can be had.
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

# on_terminal COMMAND: a shell runs it on a pseudo-terminal; what it draws goes to the file terminal.
on_terminal() { timeout -s KILL 60 script -qfec "$1" /dev/null </dev/null >terminal 2>script.err; }

on_terminal 'test -t 2'
status=$?
if [ $status -ne 0 ]; then
  echo "1..0 # SKIP no pseudo-terminal can be had on this machine: status $status $(head -n 1 script.err)"
  exit 77
fi

mkfifo fifo
# The input goes on when the line has been drawn.
in_background '(cat paths; for _ in $(seq 600); do grep -q "dedup: " terminal && break; sleep 0.05; done; cat paths) >fifo'
on_terminal "'$tamis' dedup ${exact:?} fifo >terminal.out"
check "progress is drawn on a terminal" grep -q 'dedup: .*lines/s.*duplicates' terminal
check "progress is cleared at the end" \
  test "$(tail -c 4 terminal | od -An -tx1 | tr -d ' \n')" = 0d1b5b4b
check "progress does not harm the result" cmp -s terminal.out paths.expected

in_background '(cat paths; sleep 0.5; cat paths) >fifo'
on_terminal "'$tamis' dedup --quiet fifo >terminal.out"
check "no progress with --quiet" test ! -s terminal

# Ctrl-C: the line is drawn, and then it is cleared.
rm fifo
mkfifo fifo
in_background 'exec 3>fifo; seq 1000 >&3; exec sleep 60'
: >terminal
on_terminal "echo \$\$ >pid; exec env --default-signal '$tamis' dedup fifo >terminal.out" &
script=$!
for _ in $(seq 600); do
  grep -q 'dedup: ' terminal && break
  sleep 0.05
done
kill -INT "$(cat pid)"
wait $script
status=$?
check "progress is cleared at an interrupt" \
  test "$(tail -c 4 terminal | od -An -tx1 | tr -d ' \n')" = 0d1b5b4b
check "... which the shell sees" test $status -eq 130

finish
