#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests how the command-line program ends, and what it leaves in the place of --output:
#   test_output.sh PATH-TO-TAMIS
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

rest() { [ -n "$(find . -name '*.tamis-*')" ]; }
# kept: the old file stands, with nothing beside it.
kept() { [ "$(cat result)" = precious ] && no_rest; }

# ---- the file is replaced at the end ----

echo precious >result
chmod 640 result
ln result other.name
try "--output: nothing on standard output" silent_output : dedup $exact -o result paths
check "--output FILE" cmp -s result paths.expected
check "... has the mode of the old file" mode_is result 640
check "... and is a new one" test "$(cat other.name)" = precious
check "... with nothing beside it" no_rest

rm result
(umask 027; "$tamis" dedup $exact --output=result numbers) >out 2>err
check "a new file" cmp -s result numbers
check "... has the mode of any new file" mode_is result 640
(cd /tmp && "$tamis" dedup $exact -o "$dir/result" "$dir/paths") >out 2>err
check "a file in another folder" cmp -s result paths.expected
name=$(printf 'n%.0s' $(seq 255))
try "the longest name" cmp -s "$name" paths.expected : dedup $exact -o "$name" paths

for command in dedup build; do
  echo precious >result
  for signal in INT TERM HUP QUIT; do
    start_slow rest "$tamis" $command --threads 2 -o result slow
    end_slow $signal
    check "SIG$signal ends $command, as the shell sees" ends_by $((128 + $(kill -l $signal)))
    check "... the old file stands" kept
  done
  try "$command: an error" one_line 1 "cannot read '/proc/self/mem'" : $command -o result paths /proc/self/mem
  check "... the old file stands" kept
  by=in_small_files try "$command: no room" one_line 1 "cannot write 'result': File too large" : \
    $command -o result paths
  check "... the old file stands" kept
  try "$command: an error leaves no new file" one_line 1 "cannot read '/proc/self/mem'" : \
    $command -o new paths /proc/self/mem
  check "... nor anything else" test ! -e new
done
start_slow rest env --ignore-signal=HUP "$tamis" dedup $exact -o result slow
kill -HUP "$pid"
sleep 0.1
check "a signal that was ignored stays ignored" kill -0 "$pid"
end_slow TERM
gzip -c paths >paths.gz
in_background 'cat paths.gz >slow'
try "an error in the input" one_line 1 "'slow' is compressed by gzip" : dedup $exact -o result slow
check "... the old file stands" kept

# ---- links and special files ----

mkdir -p folder
echo precious >folder/target
ln -s target folder/second
ln -s folder/second link
try "a symbolic link: its target is replaced" cmp -s folder/target paths.expected : dedup $exact -o link paths
check "... and it stays" test "$(readlink link) $(readlink folder/second)" = "folder/second target"
rm folder/target
try "a symbolic link to nothing: its target is made" cmp -s folder/target paths.expected : dedup $exact -o link paths
ln -s turn around
ln -s around turn
try "symbolic links in a circle" one_line 1 "cannot write 'around': Too many levels" : dedup $exact -o around paths

try "/dev/stdout is a file" same_as paths.expected : dedup $exact -o /dev/stdout paths
echo before >out
"$tamis" dedup $exact -o /dev/stdout paths >>out 2>err
status=$?
check "/dev/stdout goes on where it is" cmp -s out <(echo before; cat paths.expected)
"$tamis" dedup $exact -o /dev/stdout paths 2>err | cat >out
check "/dev/stdout is a pipe" cmp -s out paths.expected
"$tamis" dedup $exact -o /dev/fd/7 paths 7>out 2>err
status=$?
check "/dev/fd/7" same_as paths.expected
mkfifo fifo
in_background 'cat fifo >out'
"$tamis" dedup $exact -o fifo paths 2>err
status=$?
wait "${background[-1]}"
check "a FIFO" same_as paths.expected
check "... is one still" test -p fifo
try "/dev/null" ends_by 0 : dedup -o /dev/null paths
check "... is a device still" test -c /dev/null

# as_nobody COMMAND...: runs it as a user who does not own the folder.
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }
cp "$tamis" folder/tamis
chmod 755 . folder folder/tamis
chmod 644 paths
echo precious >folder/open
chmod 666 folder/open
if as_nobody folder/tamis --version >out 2>err; then
  as_nobody folder/tamis dedup $exact -o folder/open paths 2>err
  check "a file that may be written, in a folder that may not" cmp -s folder/open paths.expected
  chmod 1777 folder
  echo precious >folder/open
  as_nobody folder/tamis dedup $exact -o folder/open paths 2>err
  check "somebody's file, in a folder for all" cmp -s folder/open paths.expected
  echo precious >folder/closed
  as_nobody folder/tamis dedup $exact -o folder/closed paths 2>err
  status=$?
  check "a file that may not be written" one_line 1 "cannot write 'folder/closed': Permission denied"
  check "... stands" test "$(cat folder/closed)" = precious
  chown 65534 result
  chmod 600 result
  "$tamis" dedup $exact -o result paths 2>err
  check "the owner of the old file is kept" test "$(stat -c %u%a result)" = 65534600
else
  skip "files of another user" "only root can become one"
fi

# ---- a reader that leaves ----

closed_pipe 1
# The other threads wait for input that does not come.
mkfifo idle
in_background 'exec 3>idle; seq 400000 >&3; exec sleep 60'
to_head default dedup --threads 4 idle
check "a closed pipe ends it, though its input goes on" ends_by 141
end_background
{ trap '' PIPE
  while echo; do sleep 0.01; done 2>/dev/null
  env --default-signal=PIPE "$tamis" --help 2>err
  echo $? >status
} | :
status=$(cat status)
check "a closed pipe under --help" ends_by 141

finish
