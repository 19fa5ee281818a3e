#!/bin/bash
# SPDX-License-Identifier: MIT
# tamis index, which and grep: members of tar archives as files, also of archives made to do harm.
#
#   test_archives.sh TAMIS
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"

mkdir -p logs/a logs/b
for i in $(seq 30); do printf 'line %d\nall\n' "$i" >"logs/a/$i"; done
printf 'no newline' >logs/b/end
: >logs/b/empty
ln -s ../a/1 logs/b/link && ln logs/a/2 logs/b/hard && mkfifo logs/b/fifo
tar cf plain.tar logs && tar czf packed.tar.gz logs && cp packed.tar.gz short.tgz
kinds="plain.tar packed.tar.gz short.tgz"
if command -v zstd >/dev/null; then zstd -q plain.tar -o z.tar.zst && kinds="$kinds z.tar.zst"; fi
if command -v xz >/dev/null; then xz -k plain.tar -c >x.tar.xz && kinds="$kinds x.tar.xz"; fi
run index -o one plain.tar
run which one all
if [ "$(cat out)" = plain.tar ]; then
  skip "members of archives are files" "the command was built without libarchive"
  echo "1..$number"
  exit 0
fi
try "members of archives are files" output_is plain.tar/logs/a/7 : which one 'line 7'
for archive in $kinds; do
  try "$archive: all regular files" figure_is files 32 : index -o index --stats "$archive"
  check "... were read" figure_is "files read" 32
  run grep index 'line 7' 'line 30' 'no newline'
  sort -o out out
  check "... are searched" output_is "$(printf '%s\n' "$archive/logs/a/30:line 30" "$archive/logs/a/7:line 7" "$archive/logs/b/end:no newline")"
  run grep -c index all
  check "... one after the other" test "$(grep -c ':1$' out)" -eq 30
  try "... and not read again" figure_is "files read" 0 : index -o index --stats "$archive"
  rm index
done
try "archives and files, with threads" figure_is files 65 : index --threads 4 -o index --stats plain.tar logs/a/1 packed.tar.gz
run which index 'line 1'
check "... all are found" output_is "$(printf '%s\n' plain.tar/logs/a/1 logs/a/1 packed.tar.gz/logs/a/1)"
mkdir in && cp plain.tar in
try "archives in folders" figure_is files 32 : index -o in.index --stats -r in
printf 'plain text\n' >text.tar
run index -o index text.tar
try "a file of that name that is no archive is a file" output_is 'text.tar:plain text' : grep index 'plain text'

# ---- changes ----

rm index
run index -o index plain.tar
echo 'line new' >>logs/a/5 && echo 'line more' >logs/a/more && rm logs/a/6 && tar cf plain.tar logs
run which index 'line new'
check "a changed archive is searched for any key" test "$(wc -l <out)" -eq 32
try "... member by member" output_is 'plain.tar/logs/a/5:line new' : grep index 'line new'
try "... but a member that has gone is no error" ends_by 1 : grep index 'line 6'
try "... and read again" figure_is "files read" 32 : index -o index --stats
check "... of which a member is gone" figure_is "files dropped" 1
try "... as it is now" output_is plain.tar/logs/a/5 : which index 'line new'
try "a member that has gone has no key" ends_by 1 : which index 'line 6'
try "a member that is new is found" output_is 'plain.tar/logs/a/more:line more' : grep index 'line more'
try "an archive that is as it was is not read again" figure_is "files read" 0 : index -o index --stats
mkdir damaged && cp plain.tar damaged && run index -o damaged.index damaged/plain.tar
head -c 20000 plain.tar >damaged/plain.tar
try "an archive that is damaged now" one_line 1 "cannot read 'damaged/plain.tar" : index -o damaged.index
try "... keeps its members, beside itself" figure_is files 33 : index -o damaged.index --stats
try "... may hold any key" grep -qx damaged/plain.tar out : which damaged.index 'line lost'
try "... and cannot be searched to its end" one_line 2 "cannot read 'damaged/plain.tar" : grep damaged.index 'line lost'
cp plain.tar damaged && run index -o damaged.index --stats
check "... has all members again when it is whole" figure_is files 32
tar cf filled.tar -T /dev/null
run index -o filled.index filled.tar
check "an archive without members" ends_by 0
tar cf filled.tar logs/a/1
try "... but with members now" one_line 2 "it is another archive than when" : grep filled.index 'line 1'
try "... and with members later" figure_is files 1 : index -o filled.index --stats
try "... which are found" output_is filled.tar/logs/a/1 : which filled.index 'line 1'
mkdir within && tar cf early.tar within logs/a/1 && truncate -s 700 early.tar
try "an archive that is damaged before its first member" one_line 1 "cannot read 'early.tar" : \
  index -o early.index early.tar
tar cf filled.tar logs/a/2
try "an archive of which all members are others now" figure_is files 1 : index -o filled.index --stats
try "... which are found, too" output_is filled.tar/logs/a/2 : which filled.index 'line 2'
rm plain.tar
try "members of an archive that is gone go with it" figure_is files 1 : index -o index --stats logs/a/1

mkdir folder && echo folded >folder/file
run index -o folder.index folder/file logs/a/1
rm -r folder && echo now a file >folder
try "a file whose folder became a file is gone" figure_is files 1 : index -o folder.index --stats

# ---- members ----

gzip -k logs/a/7 && tar cf nested.tar logs/a/7.gz
run index -o nested nested.tar
check "a compressed member is an error" one_line 1 "cannot read 'nested.tar/logs/a/7.gz': it is compressed"
try "... and may hold any key" output_is nested.tar/logs/a/7.gz : which nested anything
tar cf twice.tar logs/a/8 && echo 'line of another' >logs/a/8 && tar rf twice.tar logs/a/8
run index -o twice twice.tar
check "a name that is there twice is an error" one_line 1 "'twice.tar/logs/a/8' is in the archive more than once"
# make ARCHIVE CODE: an archive of Python's; CODE has `tar`, and `add(NAME, BYTES)`.
make() {
  /usr/bin/python3 - "$@" <<'END'
import io
import sys
import tarfile

with tarfile.open(sys.argv[1], "w", format=tarfile.PAX_FORMAT) as tar:
    def add(name, data, **more):
        member = tarfile.TarInfo(name)
        member.size = len(data)
        for key, value in more.items():
            setattr(member, key, value)
        tar.addfile(member, io.BytesIO(data))
    exec(sys.argv[2])
END
}
make names.tar 'add("/absolute", b"1\n"); add("../../up", b"2\n"); add("./here", b"3\n"); add("a\nb", b"4\n")
add("\u00e4/\u2603", b"5\n"); add("x" * 300 + "/y", b"6\n"); add("s//p", b"7\n")'
try "names of all kinds" figure_is files 7 : index -o names --stats names.tar
for key in 1 2 3 4 5 6 7; do run grep names $key && [ "$status" -eq 0 ] || unfound="${unfound:-} $key"; done
check "... are found:${unfound:-}" test -z "${unfound:-}"
check "... and nothing is written" test ! -e ../../up
make empty.tar 'pass'
try "an archive without members is a file" figure_is files 2 : index -o none --stats empty.tar logs/a/1
make claims.tar 'member = tarfile.TarInfo("long"); member.size = 8**11 - 1
tar.fileobj.write(member.tobuf()); tar.offset += 512'
run index -o claims claims.tar
check "a member that claims to be large" test "$status" -eq 1

# ---- damage ----

size=$(stat -c %s packed.tar.gz)
for bytes in 20 100 511 $((size / 2)) $((size - 100)) $((size - 1)); do
  head -c $bytes packed.tar.gz >cut.tar.gz
  run index -o cut cut.tar.gz
  [ "$status" -eq 1 ] || whole="${whole:-} $bytes"
  rm -f cut
done
check "an archive that is cut off is an error:${whole:-}" test -z "${whole:-}"
tar cf plain.tar logs
for n in $(seq 120); do # bytes at any place, most in headers
  cp plain.tar bent.tar
  for i in 1 2 3; do
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x $((RANDOM % 256)))" | dd of=bent.tar bs=1 seek=$((RANDOM % 60 * 512 + RANDOM % 500)) conv=notrunc 2>/dev/null
  done
  rm -f bent
  timeout 20 "$tamis" index -o bent bent.tar >out 2>err || [ $? -eq 1 ] || broken="${broken:-} $n"
  [ ! -e bent ] || timeout 20 "$tamis" grep bent 'line 7' >out 2>err || [ $? -le 2 ] || broken="${broken:-} $n"
done
check "damaged archives do no harm:${broken:-}" test -z "${broken:-}"

finish
