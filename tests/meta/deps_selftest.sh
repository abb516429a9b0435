#!/usr/bin/env bash
# tools/deps detects missing tools, installs exactly these if it may, and otherwise prints the one
# command. Compilers, apt-get, sudo and id are replaced by scripts that come first in PATH.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0
export PATH=$scratch/bin:$PATH SCRATCH=$scratch
mkdir "$scratch/bin"

stand_in() { # stand_in NAME: a program from standard input
    { echo '#!/bin/sh'; cat; } > "$scratch/bin/$1" && chmod +x "$scratch/bin/$1"
}
check() { # check WHAT STATUS WORDS ARGUMENT...: tools/deps ends so and says this
    local what=$1 want=$2 words=$3 status
    shift 3
    tools/deps "$@" > "$scratch/output" 2>&1
    status=$?
    if [ $status = "$want" ] && { [ -z "$words" ] || grep -qF -- "$words" "$scratch/output"; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s: status %s\n' "$what" $status
        sed 's/^/    /' "$scratch/output"
    fi
}
installed() { # installed WHAT WANTED: what apt-get was asked to install
    if [ "$(cat "$scratch/asked" 2> /dev/null)" = "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1)) && echo "FAILED $1: apt-get was asked for $(cat "$scratch/asked")"
    fi
    rm -f "$scratch/asked"
}

# a gcc without jansson until apt-get installs it; an apt-get that records its calls; an ordinary user, then
# root
stand_in gcc <<'END'
cat > /dev/null # or who writes it the source dies of a pipe that nobody reads
case " $* " in *" -ljansson "*) [ -e "$SCRATCH/has-jansson" ] ;; esac
END
stand_in make <<< 'exit 0'
stand_in apt-get <<'END'
case " $* " in
    *" install "*) echo "$*" | sed 's/.*--no-install-recommends //' >> "$SCRATCH/asked"
                   [ ! -e "$SCRATCH/apt-works" ] || touch "$SCRATCH/has-jansson" ;;
esac
[ -e "$SCRATCH/apt-works" ]
END
stand_in sudo <<< 'exit 1'
stand_in id <<< 'echo 1000'

check "what is missing" 1 "missing: libjansson-dev" --check build
installed "--check installs" ""
check "somebody without root" 1 "sudo apt-get install libjansson-dev" build
installed "somebody without root installs" ""
check "another group" 0 "" --check test
stand_in id <<< 'echo 0'
check "an apt-get that fails" 1 "missing: libjansson-dev" build
installed "it is asked again, after an update, and for each package" \
    "libjansson-dev
libjansson-dev
libjansson-dev"
touch "$scratch/apt-works"
check "root" 0 "installing: libjansson-dev" build
installed "root installs" libjansson-dev
check "nothing is missing any more" 0 "" build
installed "nothing is installed twice" ""
rm "$scratch/has-jansson"
stand_in id <<< 'echo 1000'
stand_in sudo <<< '[ "$1" = -n ] && shift && exec "$@"'
check "sudo without a question" 0 "installing: libjansson-dev" build
installed "sudo installs" libjansson-dev
check "a group that does not exist" 2 "no such group" --check tests
check "the list" 0 "build  libjansson-dev" --list
check "the words of help" 0 "--check never installs" --help

printf '%d passed, %d failed, 0 skipped\n' $passed $failed
[ $failed = 0 ]
