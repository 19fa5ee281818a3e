#!/bin/bash
# SPDX-License-Identifier: MIT
# Does every seeded bug still apply?
#
#   check_patches.sh SOURCE_DIR
set -u
cd "$1" || exit 2
status=0
for patch in tests/negative/*.patch; do
  patch --dry-run -s -p1 <"$patch" >/dev/null || { echo "$patch no longer applies"; status=1; }
done
exit $status
