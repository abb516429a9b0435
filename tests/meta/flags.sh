#!/usr/bin/env bash
# The flags that the build promises are the flags it uses: on every line of the build, as `make -n -B` prints
# them, and in the output of `make info`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
unset MAKEFLAGS MFLAGS MAKELEVEL NVCC_COMMON
passed=0 failed=0 skipped=0
promised='-std=c11 -pthread -ffp-contract=off -fno-fast-math -fno-math-errno -frounding-math -Wall -Wextra
    -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror'
forbidden='-f(fast|unsafe|finite|associative|reciprocal)-?math|-Ofast|-ffp-contract=(fast|on)|-flto|-fopenmp'

# lines SETTINGS...: the compilations of a build from nothing, and the link of the program
lines() { make -n -B BUILD=build/never "$@" program 2>&1 | grep -E "^[a-z0-9_-]*(gcc|clang) "; }

# wrong LINES: their errors, one per line
wrong() {
    local flag count=0 line
    while IFS= read -r line; do
        case "$line" in
            *' -c '*)
                # in gpu/, C files use both sets of kernels, or replace C++ or CUDA
                [[ $line == *' -c gpu/'* ]] || count=$((count + 1))
                for flag in $promised; do
                    [[ " $line " == *" $flag "* ]] || echo "without $flag: $line"
                done ;;
            *) [[ " $line " != *" -lm "* ]] || echo "links libm: $line" ;;
        esac
        [[ $line =~ \ ($forbidden)(\ |$) ]] && echo "a flag that changes arithmetic: $line"
    done <<< "$1"
    # tools/bench/bench*.c are a separate program, `make bench`
    [ $count = "$(find ref tools -name '*.c' ! -path 'tools/bench/bench*' | wc -l)" ] ||
        echo "$count compilations: not one per source"
}

# judge right|REASON NAME LINES: there must be no error, or errors that all match the reason (a pattern)
judge() {
    if { [ "$1" = right ] && [ -z "$3" ]; } ||
        { [ "$1" != right ] && [ -n "$3" ] && ! grep -qvE -- "^($1)" <<< "$3"; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n%s\n' "$2" "$(cut -c1-200 <<< "$3" | head -n 3)"
    fi
}
expect() { judge "$1" "$2" "$(wrong "$(lines "${@:3}")")"; } # expect right|REASON NAME SETTINGS...

expect right "the flags of gcc" CC=gcc
expect right "the flags at -O0" CC=gcc OPT=-O0
if command -v clang > /dev/null && [ "$(uname -m)" = x86_64 ]; then
    expect right "the flags of clang" CC=clang
else
    echo "SKIPPED the flags of clang: no clang for x86-64"
    skipped=$((skipped + 1))
fi
# kernels are compiled by the host's compiler and by nvcc; neither may contract
promised_kernels='-std=c++17 -fno-exceptions -fno-rtti -ffp-contract=off -fno-fast-math -frounding-math -Wall -Wextra
    -Wshadow -Wconversion -Werror'
promised_device='-std=c++17 -fmad=false all-warnings'
# the name of the source decides: code for the two targets (*_lowbit), or PTX and code for both targets made from the
# PTX
promised_lowbit='arch=compute_90a,code=sm_90a arch=compute_121a,code=sm_121a'
promised_common='arch=compute_90,code=[sm_90,sm_121]'
# kernel_flags SETTINGS...: the same for C++ and CUDA
kernel_flags() {
    local flag line host=0 lowbit=0 common=0 all
    all=$(make -n -B BUILD=build/never CC=gcc "$@" program 2>&1 | grep -E '^([^ ]*/)?(g\+\+|nvcc) .* -c ')
    while IFS= read -r line; do
        case "$line" in
            g++*) flag=$promised_kernels host=$((host + 1)) ;;
            *'_lowbit.cc -o '*) flag="$promised_device $promised_lowbit" lowbit=$((lowbit + 1)) ;;
            *) flag="$promised_device $promised_common" common=$((common + 1)) ;;
        esac
        for flag in $flag; do [[ " $line " == *[\ ,]"$flag"[\ ,]* ]] || echo "without $flag: $line"; done
        [[ $line =~ [\ ,]($forbidden|-fmad=true|--?use_fast_math)([\ ,]|$) ]] &&
            echo "a flag that changes arithmetic: $line"
    done <<< "$all"
    [ $host = "$(find gpu -name '*.cc' | wc -l)" ] || echo "$host compilations of C++"
    [[ " $* " == *" NVCC= "* ]] || { [ $lowbit -gt 1 ] && [ $common -gt 5 ]; } ||
        echo "$lowbit and $common compilations for devices"
}
expect_kernels() { judge "$1" "$2" "$(kernel_flags "${@:3}")"; } # like expect
changed='a flag that changes arithmetic'
expect_kernels right "the flags of kernels" NVCC=
expect_kernels "$changed" "contraction of kernels goes unseen" NVCC= OPT='-O2 -ffp-contract=fast'
# nothing is compiled, so that NVCC may be a name that does not exist
expect_kernels right "the flags of device code" NVCC=nvcc
expect_kernels "$changed" "contraction of device code goes unseen" NVCC='nvcc -fmad=true'
expect_kernels "without arch=compute_(90|121)a" "a missing target goes unseen" NVCC=nvcc NVCC_TARGETS=
expect_kernels "without arch=compute_90," "missing PTX goes unseen" NVCC=nvcc NVCC_COMMON=

# wrong flags are detected
expect "$changed" "fast mathematics goes unseen" OPT=-Ofast
expect "$changed" "contraction goes unseen" EXTRA=-ffp-contract=fast
expect "without -W" "a missing -Werror goes unseen" WARNINGS=
expect "without -frounding-math" "a missing -frounding-math goes unseen" ROUNDING=
expect "links libm" "libm goes unseen" LIBS='-ljansson -lm'

# make info prints the very command
compile=$(make -s info CC=gcc | sed -n 's/^compile  *//p')
if [ -n "$compile" ] && grep -qF -- "$compile" <<< "$(lines CC=gcc)"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1)) && echo "FAILED make info prints another command: $compile"
fi

printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ]
