#!/usr/bin/env bash
# Runs the unit, command line and fuzz tests again under the address and undefined behaviour sanitizers, in a separate
# build. First it checks that the sanitizers are active: on every line of the build log, and in the program.
# CHECK_ALL=1 adds the other suites.
#
#   tests/asan.sh long    the fuzz targets of whole folders and commands, each for BUDGET seconds (3600): what
#                         `make check-long` runs
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
plain=${BUILD:-build}
asan=$plain/asan
flag=-fsanitize=address,undefined
# -Og compiles in two thirds of the time of -O1. xxhash needs inlining, which -Og refuses.
settings=(BUILD="$asan" CC="${ASAN_CC:-gcc}" OPT="-Og -g1"
    EXTRA="$flag -fno-sanitize-recover=all -fno-omit-frame-pointer -DXXH_NO_INLINE_HINTS=1")
export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1:detect_leaks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
if [ "${1-}" = long ]; then
    long=(fuzz_folder fuzz_bundle fuzz_sglang fuzz_generation fuzz_command)
    make -s -j"${JOBS:-2}" "${settings[@]}" "${long[@]/#/$asan/tests/fuzz/}" || exit 1
    BUILD=$asan BUDGET=${BUDGET:-3600} exec bash tests/fuzz.sh "${long[@]}"
fi
# Sanitizers find errors of memory, not rare values. Therefore only some unit tests run: those of the readers of files
# and answers, of states, and of the kernels that add up rows. The others run the same code and wait for CHECK_ALL.
if [ "${CHECK_ALL-}" != 1 ]; then
    export SAMEBIT_CASES=10000 SAMEBIT_FN_CASES=100000 MUTATIONS=${MUTATIONS:-2000}
    export LEAVE_OUT=
    for source in tests/unit/test_*.c; do
        case ${source#tests/unit/test_} in
            api* | base* | config* | container* | declared* | detect* | dump_arrays* | hash.c | memory_stream*) ;;
            model* | observed* | report* | session.c | state.c | tokenizer* | trace*) ;;
            batch* | compensated* | formats* | int_dot* | lanes* | rounded* | row* | strips* | ops* | finite*) ;;
            *) LEAVE_OUT="$LEAVE_OUT $source" ;;
        esac
    done
    # of the command line tests, those with damaged files
    for script in tests/cli/*.sh; do
        case $script in */damaged.sh | */state.sh | */tokenize.sh | */wrong_use.sh) ;;
            *) LEAVE_OUT="$LEAVE_OUT $script" ;;
        esac
    done
    # of the tests of the GPU path, those of the emulator, if there is a C++ compiler
    cxx=$(sed 's/clang/clang++/; s/gcc/g++/' <<< "${ASAN_CC:-gcc}")
    for source in tests/gpu/test_*.c* tests/gpu/*.sh; do
        case $source in */test_emu*) command -v "$cxx" > /dev/null && continue ;; esac
        LEAVE_OUT="$LEAVE_OUT $source"
    done
    LEAVE_OUT=$(echo $LEAVE_OUT)
fi
passed=0 failed=0 skipped=0

verdict() { # verdict STATUS NAME
    if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $2"; fi
}

gone=$(for source in ${LEAVE_OUT-}; do [ -e "$source" ] || printf ' %s' "$source"; done)
[ -z "$gone" ]
verdict $? "left out and not there:$gone"

echo "building $asan"
targets=(tests) few=()
if [ "${CHECK_ALL-}" != 1 ]; then # what will run, and no more
    targets=("$asan/samebit" "$asan/suites/unit")
    # also the emulator of the GPU path; its kernels are templates, which compile slowly and wait for CHECK_ALL
    if command -v "$cxx" > /dev/null; then
        settings+=(GPU_SRC="$(echo gpu/absent*.c gpu/*/absent*.c gpu/*/calls.c gpu/step/resident.c gpu/emu/*.cc gpu/atom/host/*.cc \
            gpu/kernel/plants.cc)")
        targets+=("$asan/suites/gpu")
    fi
    cases=
    for source in tests/unit/test_*.c tests/fuzz/fuzz_*.c tests/cli/*.c tests/gpu/test_emu*.cc; do
        [[ " $LEAVE_OUT " != *" $source "* ]] || continue
        case $source in */test_*) cases="$cases $source" ;; esac
        ! grep -qw '^int main' "$source" && [[ $source != tests/fuzz/* ]] || targets+=("$asan/${source%.c*}")
    done
    few=(CASES="$cases")
fi
make -s -j"${JOBS:-2}" "${settings[@]}" "${few[@]}" "${targets[@]}" || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }

# the commands of a build from nothing: every compilation and every link has the flag
lines=$(make -n -B "${settings[@]}" tests | grep -E "^(${ASAN_CC:-gcc}|g\+\+|clang\+\+) ")
without=$(grep -vc -- " $flag " <<< "$lines")
echo "$(wc -l <<< "$lines") compiler lines, $without without $flag"
[ "$(wc -l <<< "$lines")" -gt 50 ] && [ "$without" = 0 ]
verdict $? "some compiler line lacks $flag"
symbols=$(nm "$asan/samebit")
grep -q '__asan_init' <<< "$symbols" && grep -q '__ubsan_handle' <<< "$symbols"
verdict $? "$asan/samebit is not sanitized"

suites=(unit cli fuzz gpu)
[ "${CHECK_ALL-}" != 1 ] || suites=(unit prop fault hf mtp check gate cli golden fuzz gpu)
output=$(mktemp) || exit 2
trap 'rm -f "$output"' EXIT
BUILD=$asan SAMEBIT= CI= bash tests/run_all.sh "${suites[@]}" 2>&1 | tee "$output"
read -r p f s < <(tail -n 1 "$output" | tr -d 'a-z,')
passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
