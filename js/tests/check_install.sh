#!/bin/bash
# SPDX-License-Identifier: MIT
# Packs the npm package, installs it where nothing of the tree is, and builds the addon from it.
#
#   check_install.sh SOURCE PACKAGE    PACKAGE: a folder in which the build has put the package, with its WebAssembly
set -eu
source=$1 package=$2
work=$(mktemp -d)
export CCACHE_BASEDIR=$work # if a cache of compilations is used, it looks at no path of this folder
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
fail() { echo "$*" >&2; exit 1; }

mkdir -p "$work/package" "$work/us,er/program" # the linker takes a comma for the end of an option
cp -r "$package"/{src,wasm,package.json} "$source"/{addon,core,README.md} "$source/../LICENSE" "$work/package"
"$source/gather" "$work/package"
TAMIS_NODE_MODULES=$package "$source/commonjs" "$work/package"
cd "$work/package"
npm pack --ignore-scripts --silent >../packed
cd "$work/us,er/program"
npm init -y >/dev/null
npm install --offline --no-audit --no-fund --silent ../../package/"$(tail -n 1 ../../packed)"
rm -rf "$work/package"

echo "import { Filter, isNative } from 'tamis'; console.log(isNative, new Filter({ capacity: 9 }).add('apple'));" >check.mjs
[ "$(node check.mjs)" = "false true" ] || fail "the package does not work without the addon"
npm explore tamis -- npm run addon >log 2>&1 || { cat log; fail "the addon does not build"; }
[ "$(node check.mjs)" = "true true" ] || fail "the package does not take the addon"
exports=$(nm -D --defined-only node_modules/tamis/addon/tamis.node | awk '{ print $3 }' | grep -v '^napi_\|^node_api_' | xargs)
[ -z "$exports" ] || fail "the addon exports $exports"
