#!/usr/bin/env bash
# The flags that the build promises are the flags it uses: on every line of the build, as `make -n -B` prints
# them, and in what `make info` says.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
unset MAKEFLAGS MFLAGS MAKELEVEL
passed=0 failed=0 skipped=0
promised='-std=c11 -fopenmp -ffp-contract=off -fno-fast-math -fno-math-errno -frounding-math -Wall -Wextra
    -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror'
forbidden='-f(fast|unsafe|finite|associative|reciprocal)-?math|-Ofast|-ffp-contract=(fast|on)|-flto'

# lines SETTINGS...: the compilations that a build from nothing would run, and the link of the program
lines() { make -n -B BUILD=build/never "$@" program 2>&1 | grep -E "^[a-z0-9_-]*(gcc|clang) "; }

# wrong LINES: what is wrong with them, a line each
wrong() {
    local flag count=0 line
    while IFS= read -r line; do
        case "$line" in
            *' -c '*)
                [[ $line == *' -c gpu/absent'* ]] || count=$((count + 1)) # in the place of C++, or of CUDA
                for flag in $promised; do
                    [[ " $line " == *" $flag "* ]] || echo "without $flag: $line"
                done ;;
            *) [[ " $line " != *" -lm "* ]] || echo "links libm: $line" ;;
        esac
        grep -qE -- " ($forbidden)( |\$)" <<< "$line" && echo "a flag that changes arithmetic: $line"
    done <<< "$1"
    [ $count = "$(find ref tools -name '*.c' ! -path 'tools/bench/*' | wc -l)" ] ||
        echo "$count compilations: not one per source"
}

expect() { # expect right|wrong NAME SETTINGS...
    local what=$1 name=$2 found
    shift 2
    found=$(wrong "$(lines "$@")" | cut -c1-200 | head -n 3)
    if { [ "$what" = right ] && [ -z "$found" ]; } || { [ "$what" = wrong ] && [ -n "$found" ]; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n%s\n' "$name" "$found"
    fi
}

expect right "the flags of gcc" CC=gcc
expect right "the flags at -O0" CC=gcc OPT=-O0
if command -v clang > /dev/null && [ "$(uname -m)" = x86_64 ]; then
    expect right "the flags of clang" CC=clang
else
    echo "SKIPPED the flags of clang: no clang for x86-64"
    skipped=$((skipped + 1))
fi
# kernels, by the host's compiler and by nvcc: nothing contracted in either
promised_kernels='-std=c++17 -fno-exceptions -fno-rtti -ffp-contract=off -fno-fast-math -frounding-math -Wall -Wextra
    -Wshadow -Wconversion -Werror'
promised_device='-std=c++17 -fmad=false all-warnings arch=compute_90a,code=sm_90a arch=compute_121a,code=sm_121a'
# kernel_flags SETTINGS...: the same for what is no C
kernel_flags() {
    local flag line host=0 device=0 all
    all=$(make -n -B BUILD=build/never CC=gcc "$@" program 2>&1 | grep -E '^([^ ]*/)?(g\+\+|nvcc) .* -c ')
    while IFS= read -r line; do
        case "$line" in
            g++*) flag=$promised_kernels host=$((host + 1)) ;;
            *) flag=$promised_device device=$((device + 1)) ;;
        esac
        for flag in $flag; do [[ " $line " == *[\ ,]"$flag"[\ ,]* ]] || echo "without $flag: $line"; done
        grep -qE -- "[ ,]($forbidden|-fmad=true|-use_fast_math|--use_fast_math)([ ,]|\$)" <<< "$line" &&
            echo "a flag that changes arithmetic: $line"
    done <<< "$all"
    [ $host = "$(find gpu -name '*.cc' | wc -l)" ] || echo "$host compilations of C++"
    [[ " $* " == *" NVCC= "* ]] || [ $device -gt 5 ] || echo "$device compilations for devices"
}
# expect_kernels right|wrong NAME SETTINGS...
expect_kernels() {
    local what=$1 name=$2 found
    shift 2
    found=$(kernel_flags "$@" | cut -c1-200 | head -n 3)
    if { [ "$what" = right ] && [ -z "$found" ]; } || { [ "$what" = wrong ] && [ -n "$found" ]; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1)) && printf 'FAILED %s\n%s\n' "$name" "$found"
    fi
}
expect_kernels right "the flags of kernels" NVCC=
expect_kernels wrong "contraction of kernels goes unseen" NVCC= OPT='-O2 -ffp-contract=fast'
# nothing is run: any name stands for nvcc
expect_kernels right "the flags of device code" NVCC=nvcc
expect_kernels wrong "contraction of device code goes unseen" NVCC='nvcc -fmad=true'
expect_kernels wrong "a missing target goes unseen" NVCC=nvcc NVCC_FLAGS='-std=c++17 -fmad=false -Werror all-warnings'

# and this test would see it if they were not
expect wrong "fast mathematics goes unseen" OPT=-Ofast
expect wrong "contraction goes unseen" EXTRA=-ffp-contract=fast
expect wrong "a missing -Werror goes unseen" WARNINGS=
expect wrong "a missing -frounding-math goes unseen" ROUNDING=
expect wrong "libm goes unseen" LIBS='-ljansson -lm'

# make info prints the very command
compile=$(make -s info CC=gcc | sed -n 's/^compile  *//p')
if [ -n "$compile" ] && grep -qF -- "$compile" <<< "$(lines CC=gcc)"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1)) && echo "FAILED make info prints another command: $compile"
fi

printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ]
