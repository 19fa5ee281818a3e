#!/bin/bash
# SPDX-License-Identifier: MIT
# Completion of the command in bash, and in zsh if it is there; --help that fits a screen; --version.
#
#   test_completion.sh TAMIS
# shellcheck source=tests/tool/tap.sh
source "$(dirname "$0")/tap.sh"
scripts=$here/../../tools/completion
PATH=$(dirname "$tamis"):$PATH
mkdir folder && : >list.tamis

# ---- help and version ----

"$tamis" --help >help
check "--help fits a screen, with the prompt" test "$(wc -l <help)" -le 23
check "--help fits 80 columns" awk 'length > 80 { print "# " $0; bad = 1 } END { exit bad }' help
"$tamis" --version >version
"$tamis" dedup -V >version.dedup
check "the first line is the version" grep -qxE 'tamis [0-9]+\.[0-9]+\.[0-9]+' <(head -n 1 version)
check "libraries are named with their versions" \
  grep -qE '^libraries +liburcu [0-9.]+( \(.*\))?, xxHash [0-9.]+, ConcurrencyKit [0-9.]+$' version
check "compiler and processor are named" grep -qE '^compiled +by (gcc|.*[Cc]lang) ?[0-9].* for [a-z]' version
check "commands say the same" cmp version version.dedup

# ---- bash ----

# shellcheck source=tools/completion/tamis
. "$scripts/tamis"
# completes EXPECTED WORD...: the last word is the one that is completed.
completes() {
  local expected=$1
  shift
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _tamis
  [ "${COMPREPLY[*]}" = "$expected" ] || { echo "# not '$expected' but '${COMPREPLY[*]}'"; return 1; }
}
check "bash: commands" completes "dedup common build query info merge size index which grep window --help --version" tamis ""
check "bash: a command" completes "query" tamis q
check "bash: options" completes "--save-every= --shared= --state= --stats" tamis dedup --s
check "bash: options of another command" completes "--show-seed" tamis info --s
check "bash: kinds" completes "cuckoo counting" tamis dedup --kind = c
check "bash: kinds after a space" completes "bloom cuckoo counting" tamis dedup -k ""
check "bash: layouts after =" completes "blocked classic word" tamis build --layout =
check "bash: layouts after a short option" completes "blocked classic word" tamis size -l ""
check "bash: files after a short option without a value" completes "list.tamis" tamis grep -l li
check "bash: files" completes "list.tamis" tamis query --check list
check "bash: files after an option" completes "list.tamis" tamis dedup --state = li
check "bash: files after another one" completes "list.tamis" tamis build --shared li
check "bash: no names for a number" completes "" tamis dedup --fpp ""
check "bash: no names for a short option's number" completes "" tamis dedup -t ""
check "bash: the command that is not there" completes "" no-such-tamis ""
accepts() { "$tamis" size --capacity 1k --fpp 0.01 "$@" >out; }
for kind in bloom cuckoo counting; do
  check "the kind $kind exists" accepts --kind $kind
done
for layout in blocked classic word; do
  check "the layout $layout exists" accepts --layout $layout
done

# ---- zsh ----

# A shell on a terminal of its own completes a line, and writes down what it has become.
cat >complete.zsh <<'END'
zmodload zsh/zpty
zpty shell zsh -f -i
tell() { zpty -w shell "$1"; }
tell "PS1= PROMPT_EOL_MARK= fpath=($1 \$fpath); stty -echo; autoload compinit; compinit -u -D"
tell "zstyle ':completion:*' list-prompt ''; unsetopt beep list_ambiguous automenu; LISTMAX=999"
# What the shell says is not what it was told, which the terminal shows as well.
tell 'show() { print -r -- "$BUFFER" >line; print DO""NE }; zle -N show'
tell 'bindkey "^I" complete-word; bindkey "^X" show; print REA""DY'
zpty -r shell seen $'*READY\r\n*'
zpty -w -n shell "$2"$'\t'$'\x18'
zpty -r shell seen $'*DONE*'
END
becomes() { # LINE EXPECTED
  rm -f line
  timeout 60 zsh -f complete.zsh "$scripts" "$1"
  [ "$(cat line)" = "$2" ] || { sed 's/^/# /' line; return 1; }
}
if command -v zsh >/dev/null; then
  check "zsh: a command" becomes "tamis que" "tamis query "
  check "zsh: an option" becomes "tamis dedup --sav" "tamis dedup --save-every="
  check "zsh: a kind" becomes "tamis dedup --kind=cu" "tamis dedup --kind=cuckoo "
  check "zsh: a kind after a short option" becomes "tamis size -k b" "tamis size -k bloom "
  check "zsh: a file" becomes "tamis info li" "tamis info list.tamis "
  check "zsh: a file after an option" becomes "tamis dedup --state=li" "tamis dedup --state=list.tamis "
else
  skip "zsh" "zsh not found"
fi

finish
