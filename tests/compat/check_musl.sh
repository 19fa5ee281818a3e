#!/bin/bash
# SPDX-License-Identifier: MIT
# The library compiles with musl, runs in a static program, and can be loaded at run time.  Debian's
# liburcu is used, which was built with glibc: it needs one function that musl does not have, and, as a
# shared library, a file with the name of glibc's loader.  The command compiles, too, and lacks nothing but argp,
# which systems with musl have as argp-standalone; Debian does not have that.
#
#   check_musl.sh SOURCE_DIR MUSL_GCC LIBURCU_BP.a LIBURCU_COMMON.a SOURCE...
set -eu
source=$1 cc=$2 urcu_bp=$3 urcu_common=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# The headers of the dependencies, without those of glibc beside them.
mkdir headers
for folder in /usr/include "$(dirname "${urcu_bp/\/lib\//\/include\/}")"; do
  for header in "$folder"/{asm,asm-generic,ck_*.h,gcc,linux,spinlock,urcu,urcu*.h,xxh*.h}; do
    [ ! -e "$header" ] || ln -sf "$header" headers/
  done
done

cat >missing.c <<'END'
#include <stdarg.h>
#include <stdio.h>
__attribute__((visibility("default"))) int __fprintf_chk(FILE *file, int flag, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int result = flag >= 0 ? vfprintf(file, format, arguments) : -1;
  va_end(arguments);
  return result;
}
END
compile() { # OBJECT SOURCE FLAG...
  "$cc" -std=c11 -O1 -D_GNU_SOURCE -DNDEBUG -fPIC -fvisibility=hidden -Wall -Wextra -Werror \
    -I "$source/include" -I "$source/lib" -isystem headers -o "$1" -c "${@:2}"
}
program=$source/tests/compat/musl_program.c
compile missing.o missing.c
compile program.o "$program" -DPROGRAM
compile plugin.o "$program"
for file; do
  compile "lib-${file//\//-}.o" "$source/$file" &
  [ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n
done
wait

echo "a static program"
"$cc" -static -o program program.o lib-*.o missing.o "$urcu_bp" "$urcu_common" -lm
./program

echo "the command, without argp"
mkdir headers/bits && : >headers/bits/floatn.h
echo '#define COMMIT ""' >headers/commit.h # as the build writes it
cat >headers/argp.h <<'END'
#define __BEGIN_DECLS
#define __END_DECLS
#define __THROW
#define __NTH(function) function
#include "/usr/include/argp.h"
END
for file in "$source"/tools/*.c; do
  compile "tool-$(basename "$file").o" "$file" -DLIBRARIES='""' -DSANITIZERS='""' &
  [ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n
done
wait
! "$cc" -static -o command tool-*.o lib-*.o missing.o "$urcu_bp" "$urcu_common" -lm 2>log || { echo "musl has argp"; exit 1; }
lacking=$(sed -n "s/.*undefined reference to \`\(.*\)'.*/\1/p" log | sort -u)
[[ $lacking = *argp_parse* ]] && ! grep -v '^argp_' <<<"$lacking" || { echo "the command lacks these functions"; exit 1; }

echo "keys by regular expression"
cat >keys.c <<'END'
#include "keys.h"
#include <stdio.h>
#include <string.h>
static bool print(void *context, const char *key, size_t length)
{
  (void) context;
  return printf(" %.*s", (int) length, key) < 0;
}
int main(int argc, char **argv)
{
  struct key_finder finder;
  char why[100];
  if (argc != 3 || !key_finder_init(&finder, &(struct key_rule){.mode = KEY_REGEX, .regex = argv[1]}, why, sizeof why))
    return puts("refused") < 0;
  key_finder_each(&finder, argv[2], strlen(argv[2]), print, NULL);
  return finder.failed;
}
END
"$cc" -static -Wall -Werror -I "$source/tools" -I "$source/include" -o keys keys.c tool-keys.c.o tool-json.c.o
keys() { # REGEX LINE KEYS
  [ "$(./keys "$1" "$2")" = "$3" ] || { echo "keys of '$1': $(./keys "$1" "$2")"; exit 1; }
}
keys '[a-z]+' 'abc def' ' abc def'
keys '^[a-z]' 'abc def' ' a'
keys '[a-z]\\.' 'a\bc' ' a\b'
keys '\<[a-z]' 'abc def' refused # each letter would be found
keys '[a-z]\b' 'abc def' refused

echo "a plugin"
"$cc" -I "$source/include" -DLOADER -o loader "$program"
shared=$(dirname "$urcu_bp")
cp "$shared"/liburcu-{bp,common}.so* .
: >empty.c
loader=$(LC_ALL=C readelf -d liburcu-bp.so | sed -n 's/.*(NEEDED).*\[\(ld-linux.*\)\]$/\1/p')
[ -z "$loader" ] || "$cc" -shared -o "$loader" empty.c
plugin() { # OUT OBJECT...
  "$cc" -shared -o "$1" plugin.o "${@:2}" missing.o liburcu-bp.so liburcu-common.so -lm
}
plugin plugin.so lib-*.o
LD_LIBRARY_PATH=. ./loader ./plugin.so

# This check finds what it is for: musl does not load a library whose thread-local variables are
# accessed directly.
compile direct.o "$source/lib/base/counter.c" -ftls-model=initial-exec
mapfile -t others < <(printf '%s\n' lib-*.o | grep -v base-counter)
plugin direct.so direct.o "${others[@]}"
if LD_LIBRARY_PATH=. ./loader ./direct.so >log; then
  echo "a plugin with direct thread-local variables was loaded"
  exit 1
fi
grep -q 'initial-exec' log || { cat log; exit 1; }
