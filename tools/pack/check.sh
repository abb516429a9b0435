#!/usr/bin/env bash
# Tests the output of `make static`, `make wheel` and `make deb` on systems where nothing is installed: make
# check-install, or tools/pack/check.sh [SUITE...] (bookworm trixie: Debian 12 and 13). Each system is a folder made by
# debootstrap, without a compiler. Needs root, debootstrap and the network. Ends with `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=$(realpath "${BUILD:-build}")
work=$build/pack
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=(bookworm trixie)
own=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
passed=0 failed=0 skipped=0

report() { # status, what, the output if it failed
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1)) && echo "ok      $2"
    else
        failed=$((failed + 1)) && echo "FAILED  $2" && tail -n 20 "$3"
    fi
}
skip() { skipped=$((skipped + 1)) && echo "SKIPPED $1: $2"; }

if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
    skip "installed systems" "needs root and debootstrap"
    suites=()
fi
mkdir -p "$work"
log=$work/log
for suite in "${suites[@]}"; do
    root=$work/$suite
    if [ ! -e "$root/ready" ]; then
        rm -rf "$root"
        debootstrap --variant=minbase --include=ca-certificates,python3-venv "$suite" "$root" > "$log" 2>&1 &&
            touch "$root/ready"
        report $? "$suite: a new system" "$log"
    fi
    rm -rf "$root/tmp/given" && mkdir "$root/tmp/given"
    cp -r golden/runs/T1 "$build/static/samebit" tools/py/first_test.py "$root/tmp/given/"
    cp "$build"/wheel/*"$(uname -m)".whl "$root/tmp/given/"
    cp "$build"/deb/{samebit,libsamebit0,libsamebit-dev}_*.deb "$root/tmp/given/"
    inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh -ec "cd /tmp/given; $1" > "$log" 2>&1; }
    # runs PROGRAM: commands that check whether the program computes the same bits on that system
    runs() { echo "$1 --version; $1 make made --preset T1 --seed 42 --replace; $1 golden verify T1 made"; }

    inside '! command -v gcc && ! command -v cc'
    report $? "$suite: no compiler" "$log"
    inside "$(runs ./samebit)"
    report $? "$suite: the static program" "$log"
    # this machine's pip downloads NumPy, because it is configured for the network here
    "$build/venv-wheel/bin/pip" download -q --no-deps --only-binary=:all: -d "$root/tmp/given" numpy==2.4.6 \
        --python-version "$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" > "$log" 2>&1
    report $? "$suite: NumPy" "$log"
    inside "rm -rf v; python3 -m venv v; v/bin/pip install -q --no-index --find-links . ./samebit*.whl; $(runs v/bin/samebit); v/bin/python first_test.py"
    report $? "$suite: the wheel, its program and its library" "$log"
    if [ "$suite" = "$own" ]; then
        inside "apt-get install -qy ./*.deb; $(runs samebit); ls /usr/share/man/man1/samebit-run.1.gz; apt-get remove -qy samebit libsamebit0; test ! -e /usr/bin/samebit"
        report $? "$suite: the packages, installed and removed" "$log"
    else
        skip "$suite: the packages" "they are built for $own"
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
