#!/usr/bin/env bash
# The lines of tools/pack/Containerfile, performed in folders that debootstrap makes, and then the program of the last
# one: tools/pack/container.sh, a part of `make check-install`. Needs root, debootstrap and the network. A line that
# this script does not know is a failure. Ends with `N passed, N failed, N skipped`.
#
#   tools/pack/container.sh --list    the lines as they are understood
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
file=${CONTAINERFILE:-tools/pack/Containerfile}
passed=0 failed=0
finish() { echo "$passed passed, $failed failed, ${1:-0} skipped" && exit $((failed > 0)); }

# each instruction on a line of its own, without comments
lines() { sed -e '/^#/d; /^[[:space:]]*$/d' "$file" | sed -e ':a; /\\$/ { N; s/\\\n//; ba; }'; }
[ "${1-}" != --list ] || { lines && exit; }

if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
    echo "SKIPPED the container: needs root and debootstrap"
    finish 1
fi
mkdir -p "${BUILD:-build}/pack"
work=$(realpath "${BUILD:-build}/pack")
log=$work/container.log
report() { # report STATUS NAME
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1)) && echo "ok      $2"
    else
        failed=$((failed + 1)) && echo "FAILED  $2" && tail -n 20 "$log"
        finish # the lines after it mean nothing
    fi
}

stages=() root= folder=/ entry=()
from() { # from IMAGE [AS NAME]: a new system of that release
    local suite=${1##*:} name=${3:-${#stages[@]}}
    suite=${suite%-slim}
    if [[ $1 != docker.io/library/debian:* ]] || [ "${2-AS}" != AS ]; then
        echo "expected docker.io/library/debian:SUITE [AS NAME]: $*"
        return 1
    fi
    if [ ! -e "$work/minbase-$suite/ready" ]; then
        rm -rf "$work/minbase-$suite"
        debootstrap --variant=minbase "$suite" "$work/minbase-$suite" && touch "$work/minbase-$suite/ready" || return 1
    fi
    stages+=("$name") root=$work/stage-$name folder=/ entry=()
    rm -rf "$root" && cp -a "$work/minbase-$suite" "$root"
}
copy() { # copy [--from=STAGE] SOURCE PLACE: a folder's contents, or a file
    local source=$PWD
    if [[ $1 == --from=* ]]; then
        [[ " ${stages[*]} " == *" ${1#--from=} "* ]] || { echo "there is no stage ${1#--from=} before this instruction"; return 1; }
        source=$work/stage-${1#--from=}
        shift
    fi
    [ $# = 2 ] && [[ $2 == /* ]] || { echo "expected SOURCE and an absolute PLACE: $*"; return 1; }
    mkdir -p "$(dirname "$root$2")" && cp -aT "$source/$1" "$root$2"
}
inside() { # inside COMMAND...: in the folder of WORKDIR, with the variables of an image
    chroot "$root" env -i -C "$folder" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"
}
perform() { # perform INSTRUCTION REST
    local words
    read -ra words <<< "$2"
    case $1 in
        FROM) from "${words[@]}" ;;
        WORKDIR) folder=$2 && mkdir -p "$root$2" ;;
        COPY) copy "${words[@]}" ;;
        RUN) inside sh -c "$2" ;;
        ENTRYPOINT) mapfile -t entry < <(grep -oE '"[^"]*"' <<< "$2" | tr -d '"') && [ ${#entry[@]} -gt 0 ] ;;
        *) echo "unknown instruction $1: expected FROM, WORKDIR, COPY, RUN or ENTRYPOINT" && return 1 ;;
    esac
}
while read -r instruction rest; do
    perform "$instruction" "$rest" > "$log" 2>&1 < /dev/null
    report $? "$instruction $rest"
done < <(lines)

inside sh -c '! command -v gcc && ! command -v make' > "$log" 2>&1
report $? "the last image has no compiler"
cp -r golden/runs/T1 "$root/tmp/T1"
enter() { inside "${entry[@]}" "$@"; }
{ enter --version && enter make /tmp/made --preset T1 --seed 42 --replace && enter golden verify /tmp/T1 /tmp/made; } > "$log" 2>&1
report $? "the entry point gives the same bits"
finish
