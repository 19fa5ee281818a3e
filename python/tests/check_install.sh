#!/bin/bash
# SPDX-License-Identifier: MIT
# The package as others install it: pip builds it in the tree, and from a source distribution that lies
# elsewhere; what is installed works without the tree, and is for each Python from 3.11 on.
#
#   check_install.sh PYTHON_FOLDER PYTHON
set -eu
source=$1 python=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
unset PYTHONPATH
! command -v ccache >/dev/null || export CC="ccache gcc"
# What is installed is built as users have it, with optimization, only where the test may take long.
optimization=-O0
[ -z "${TAMIS_LONG:-}" ] || optimization=
# The tree is copied, as a build leaves files in it.
mkdir "$work/tree"
cp -R "$source" "$source/../lib" "$source/../include" "$source/../cmake" "$source/../LICENSE" "$work/tree"
cd "$work/tree"

"$python" -m venv --system-site-packages "$work/venv"
CFLAGS=$optimization "$work/venv/bin/pip" install ./python --no-build-isolation --no-index --quiet --disable-pip-version-check
cd "$work"
"$work/venv/bin/python" "$source/examples/seen.py" >out
diff out <(sed -n 's/^# prints: //p' "$source/examples/seen.py") || fail "the example prints something else"
"$work/venv/bin/python" -c 'import tamis; print(tamis.__version__, tamis.__file__)' | grep -q "^[0-9.]* $work/venv" ||
  fail "another package is imported"
module=$(echo "$work"/venv/lib/python*/site-packages/tamis/_tamis.abi3.so)
[ -e "$module" ] || fail "the module is not for each Python from 3.11 on"
exported=$(nm -D --defined-only "$module" | awk '{ print $3 }')
[ "$exported" = PyInit__tamis ] || fail "exported: $exported"
needed=$(readelf -d "$module" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|ld-.*)\.so' | xargs)
[ "$needed" = liburcu-bp.so.8 ] || fail "it needs: $needed"
for part in py.typed _tamis.pyi scrapy.py; do
  [ -e "$(dirname "$module")/$part" ] || fail "$part is not installed"
done

cd "$work/tree/python"
"$python" setup.py -q sdist -d "$work/dist" 2>"$work/log" || { cat "$work/log"; exit 1; }
mkdir "$work/else, where" # the linker takes a comma for the end of an option
tar -xf "$work"/dist/tamis-*.tar.gz -C "$work/else, where"
rm -rf "$work/tree"
cd "$work"
CFLAGS=-O0 "$work/venv/bin/pip" install "else, where"/tamis-* --no-build-isolation --no-index --quiet --force-reinstall \
  --disable-pip-version-check
"$work/venv/bin/python" "$source/examples/seen.py" >out
diff out <(sed -n 's/^# prints: //p' "$source/examples/seen.py") || fail "from the source distribution, it prints something else"
echo good
