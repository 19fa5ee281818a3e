#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs that pass where they were built pass elsewhere, too: on one processor, in a folder of another
# user's, with no environment, and with a mask that leaves new files to their owner, or to everybody.
#
#   check_elsewhere.sh PROGRAM ...
#
# As root they run as the user 65534 in the group 65533; as another user only the rest is changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
as=()
if [ "$(id -u)" -eq 0 ]; then
  as=(setpriv --reuid 65534 --regid 65533 --clear-groups)
  chmod 711 "$work"
fi
processor=$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')
failed=0
for mask in 0077 0000; do
  mkdir "$work/$mask" "$work/$mask/tmp"
  cp "$@" "$work/$mask"
  [ ${#as[@]} -eq 0 ] || chown -R 65534:65533 "$work/$mask"
  for program; do
    name=$(basename "$program")
    (cd "$work/$mask" && umask $mask &&
      exec env -i TMPDIR="$work/$mask/tmp" taskset -c "$processor" "${as[@]}" "./$name") >"$work/log" 2>&1 ||
      { tail -n 20 "$work/log"; echo "FAILED: $name with umask $mask"; failed=1; }
  done
done
exit $failed
