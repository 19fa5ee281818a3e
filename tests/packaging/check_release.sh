#!/bin/bash
# SPDX-License-Identifier: MIT
# script/release says what a version lacks, and makes the files of a release from the last commit.  The recipes of
# package managers name its archive, its version and options that exist.  With --recipes they build it: Arch's by
# makepkg, Alpine's in a shell, and vcpkg's with the calls of vcpkg that it makes, which are written down here.
# What is not committed is not tested.
#
#   check_release.sh SOURCE_DIR [--recipes]
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1"; exit 1; }
quiet() { "$@" >"$work/log" 2>&1 || { tail -n 60 "$work/log"; exit 1; }; }

# ---- what a version lacks, in a clone ----

quiet git clone --no-tags "$source" "$work/clone"
cd "$work/clone"
git config user.name test && git config user.email test@localhost
release() { script/release "$@" >"$work/said" 2>&1; }
lacks() { # WORDS: script/release refuses, and says this alone
  ! release --tag || fail "a release although it lacks: $1"
  grep -q "^lacking: .*$1" "$work/said" && [ "$(grep -c ^lacking: "$work/said")" -eq 1 ] ||
    { cat "$work/said"; fail "it should lack only: $1"; }
}
version=$(sed -En 's/^#define TAMIS_VERSION_(MAJOR|MINOR|PATCH) //p' include/tamis/tamis.h | paste -sd .)
sed -i "s/^## \[$version\].*/## [$version] - 2000-01-01/" CHANGELOG.md
case $version in 0.*) so=${version%.*} ;; *) so=${version%%.*} ;; esac
# As the target abi-release writes them.
: >tests/compat/abi/changes.txt
echo "<abi-corpus soname='libtamis.so.$so'>" >tests/compat/abi/last.abi
git add tests && git commit -qam "A version"
lacks "script/test --all"
pass() { mkdir -p build/passed && git rev-parse HEAD >build/passed/all; }
pass
touch more && lacks "is committed" && rm more
git tag "v$version" && lacks "annotated" && git tag -d "v$version" >/dev/null
echo . >tests/compat/abi/changes.txt && git commit -qam "A change" && pass && lacks "tests/compat/abi"
quiet git revert --no-edit HEAD
pass
sed -i "s/^## \[$version\].*/## [$version] - unreleased/" CHANGELOG.md && git commit -qam "Not yet" && lacks "a date"
quiet git revert --no-edit HEAD
echo >>README.md && git commit -qam "Untested" && lacks "script/test --all" && pass
release --tag --url https://example.org/tamis || { cat "$work/said"; fail "no release, though nothing is lacking"; }
[ "$(git cat-file -t "v$version")" = tag ] || fail "the tag is not annotated"
release || { cat "$work/said"; fail "the release cannot be made again"; }
git commit -q --allow-empty -m "After it" && pass && lacks "annotated"

# ---- the files ----

cd "$source"
release --draft || { cat "$work/said"; fail "no draft"; }
dist=$source/build/dist recipes=$source/build/dist/recipes
[ -z "$(find "$dist" -type f ! -name SHA256SUMS -printf '%P\n' | sort | diff - <(sed 's/^[^ ]*  //' "$dist/SHA256SUMS"))" ] ||
  fail "SHA256SUMS does not name each file"
! grep -rnE '@[A-Z0-9]+@' "$recipes" || fail "a recipe is not filled in"
sums=$(sha256sum "$dist/tamis-$version.tar.gz" | cut -d ' ' -f 1; sha512sum "$dist/tamis-$version.tar.gz" | cut -d ' ' -f 1)
for recipe in alpine/APKBUILD arch/PKGBUILD conan/conanfile.py homebrew/tamis.rb tamis.wrap vcpkg/portfile.cmake; do
  grep -qF "$sums" "$recipes/$recipe" || fail "$recipe does not have the archive's checksum"
done
for recipe in alpine/APKBUILD arch/PKGBUILD conan/conanfile.py homebrew/tamis.rb tamis.wrap vcpkg/vcpkg.json; do
  grep -qF "$version" "$recipes/$recipe" || fail "$recipe does not have the version"
done
mapfile -t options < <(grep -rhoE 'TAMIS_BUILD_[A-Z]+' "$recipes")
for option in "${options[@]}"; do
  grep -q "^option($option " CMakeLists.txt || fail "a recipe sets $option, which is no option"
done
python3 - "$recipes" <<'PYTHON'
import ast, json, pathlib, sys
recipes = pathlib.Path(sys.argv[1])
for path in recipes.rglob("*.py"):
    ast.parse(path.read_text(), path)
port = json.loads((recipes / "vcpkg/vcpkg.json").read_text())
assert port["name"] == "tamis" and "liburcu" in port["dependencies"], port
PYTHON

# ---- what they build ----

[ "${2:-}" ] || exit 0
quiet ruby -c "$recipes/homebrew/tamis.rb"
export CFLAGS=-O1 CMAKE_BUILD_PARALLEL_LEVEL=2
used() { # PREFIX: a program finds the package there by CMake, and runs
  quiet cmake -S "$recipes/conan/test_package" -B "$work/used" -DCMAKE_PREFIX_PATH="$1"
  quiet cmake --build "$work/used"
  quiet "$work/used/consumer"
  rm -rf "$work/used"
}

echo "Arch: makepkg"
mkdir -m 777 "$work/arch" "$work/arch/all"
chmod 755 "$work"
cp "$recipes/arch/PKGBUILD" "$dist/tamis-$version.tar.gz" "$work/arch/"
# It refuses to run as root; and pacman, which is not here, is asked for versions only.
as=()
[ "$(id -u)" -ne 0 ] || as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
(cd "$work/arch" && quiet env -u CMAKE_C_COMPILER_LAUNCHER HOME="$work/arch" PACMAN=true "${as[@]}" makepkg --nodeps --noconfirm)
bsdtar -C "$work/arch/all" -xf "$work"/arch/*.pkg.tar*
used "$work/arch/all/usr"

echo "Alpine: build(), check() and package()"
mkdir "$work/alpine" && tar -C "$work/alpine" -xf "$dist/tamis-$version.tar.gz"
quiet env pkgdir="$work/alpine/all" sh -euc ". $recipes/alpine/APKBUILD && cd $work/alpine/tamis-$version && build && check && package"
used "$work/alpine/all/usr"

echo "vcpkg"
for linkage in static dynamic; do
  cat >"$work/calls.cmake" <<CALLS
set(VERSION $version)
set(PORT tamis)
set(CURRENT_PACKAGES_DIR $work/vcpkg)
function(vcpkg_download_distfile variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "URLS;FILENAME;SHA512" "")
  file(DOWNLOAD "\${arg_URLS}" "$work/\${arg_FILENAME}" EXPECTED_HASH SHA512=\${arg_SHA512})
  set(\${variable} "$work/\${arg_FILENAME}" PARENT_SCOPE)
endfunction()
function(vcpkg_extract_source_archive variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCHIVE" "")
  file(ARCHIVE_EXTRACT INPUT "\${arg_ARCHIVE}" DESTINATION $work/source)
  set(\${variable} "$work/source/tamis-$version" PARENT_SCOPE)
endfunction()
function(vcpkg_find_acquire_program variable)
  find_program(\${variable} pkg-config REQUIRED)
endfunction()
function(run)
  execute_process(COMMAND \${CMAKE_COMMAND} \${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  run(-S "\${arg_SOURCE_PATH}" -B $work/built --fresh -DCMAKE_INSTALL_PREFIX=\${CURRENT_PACKAGES_DIR} -DCMAKE_BUILD_TYPE=None
      -DBUILD_SHARED_LIBS=$([ $linkage = static ] && echo OFF || echo ON) -DCMAKE_INSTALL_LIBDIR=lib
      -DCMAKE_ERROR_ON_ABSOLUTE_INSTALL_DESTINATION=ON \${arg_OPTIONS})
endfunction()
function(vcpkg_cmake_install)
  run(--build $work/built)
  run(--install $work/built)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  file(RENAME \${CURRENT_PACKAGES_DIR}/\${arg_CONFIG_PATH} \${CURRENT_PACKAGES_DIR}/lib/cmake/moved)
  file(RENAME \${CURRENT_PACKAGES_DIR}/lib/cmake/moved \${CURRENT_PACKAGES_DIR}/\${arg_CONFIG_PATH})
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(INSTALL \${arg_FILE_LIST} DESTINATION \${CURRENT_PACKAGES_DIR}/share/tamis)
endfunction()
include($recipes/vcpkg/portfile.cmake)
CALLS
  rm -rf "$work/vcpkg"
  quiet cmake -P "$work/calls.cmake"
  case $linkage in static) unwanted='*.so*' ;; dynamic) unwanted='*.a' ;; esac
  [ -z "$(find "$work/vcpkg" -name "$unwanted")" ] || fail "vcpkg's $linkage package has $unwanted"
  used "$work/vcpkg"
done
