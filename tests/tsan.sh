#!/usr/bin/env bash
# The program again under the thread sanitizer, in a separate build: every command that shares work, on a
# small checkpoint and with several threads. First a check that a race would be detected.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
tsan=${BUILD:-build}/tsan
flag=-fsanitize=thread
passed=0 failed=0
verdict() { # verdict STATUS NAME
    if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $2"; fi
}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export TSAN_OPTIONS=halt_on_error=1:exitcode=66 OMP_NUM_THREADS=3

cat > "$work/race.c" <<'END'
#include "ref/base/pool.h"
static int count;
static void race(void *ctx, size_t i, size_t worker) { (void)ctx, (void)i, (void)worker, count++; }
int main(void) { sb_parallel_for(100000, 1, race, 0); return count == 0; }
END
gcc -std=c11 -D_POSIX_C_SOURCE=200809L -I. -O1 -g $flag -pthread "$work/race.c" ref/base/pool.c ref/base/processors.c \
    -o "$work/race"
verdict $? "a program with a race is not built"
"$work/race" > "$work/out" 2>&1
[ $? = 66 ] && grep -q 'data race' "$work/out"
verdict $? "a race is not seen"

# the GPU's kernels in the emulator use one thread
make -s -j"${JOBS:-2}" NVCC= CXX=none BUILD="$tsan" OPT=-O1 EXTRA=$flag \
    program "$tsan/tests/unit/test_pool" || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }

TSAN_OPTIONS=$TSAN_OPTIONS:die_after_fork=0 "$tsan/tests/unit/test_pool" > "$work/out" 2>&1
verdict $? "test_pool: $(grep -m 3 -E 'WARNING|SUMMARY|FAILED' "$work/out" | tr '\n' ' ')"

clean() { # clean STATUS COMMAND...: ends with this status and no race
    local status expected=$1
    "$tsan/samebit" "${@:2}" > "$work/out" 2> "$work/err" < /dev/null
    status=$?
    [ $status = "$expected" ]
    verdict $? "status $status of samebit ${*:2}: $(grep -m 3 -E 'WARNING|SUMMARY|^samebit' "$work/err" | tr '\n' ' ')"
}
# wide enough for sharing the ops of single tokens, too
clean 0 make "$work/T4" --preset T4 --seed 42
clean 0 make "$work/nv" --preset T4 --format nvfp4-ct --seed 42
clean 0 make "$work/T3" --preset T3 --format int4-gptq --seed 42
clean 0 run "$work/T4" --tokens 1,2,3,4,5,6,7 -n 3 --draft 2
clean 0 run "$work/nv" --tokens 1,2,3,4,5,6,7 -n 2
clean 0 run "$work/nv" --tokens 1,2,3,4,5,6,7 -n 2 --profile w4a4
clean 0 run "$work/T3" --tokens 1,2,3,4,5,6,7 -n 2
clean 0 check "$work/nv" --against "$work/T4"
clean 0 hash "$work/nv" --values
clean 0 diff "$work/T4" --engine sim:sequential --tokens 7,8,9,10 -n 2
clean 0 compare "$work/T4" "$work/nv" --tokens 1,2,3,4,5
clean 0 vectors linear --format nvfp4-ct -o "$work/v.safetensors"
"${BUILD:-build}/tests/cli/gate_got" "$work/v.safetensors" "$work/got.safetensors" out=exact:F32
verdict $? "nothing to judge"
clean 0 judge "$work/v.safetensors" "$work/got.safetensors"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
