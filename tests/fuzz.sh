#!/usr/bin/env bash
# Runs every fuzz target over the files of golden/bad and over damaged copies of them. Nothing may crash, hang
# or break a law that the target states. Each target gets MUTATIONS=N damaged copies (10000; fewer for slow
# targets), or as many as fit into BUDGET=SECONDS, from SEED (1). A failure prints the number of the mutation.
# To repeat it, run the printed command with -f NUMBER -n 1 instead of -n or -t (Python: --first NUMBER
# --calls 1). docs/fuzzing.md has the list of targets.
#
#   tests/fuzz.sh [TARGET...]   these targets, or all
#   tests/fuzz.sh --list        their names
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
build=${BUILD:-build}
mutations=${MUTATIONS:-10000}
[ "${CHECK_ALL-}" != 1 ] || mutations=${MUTATIONS:-500000}
passed=0 failed=0 skipped=0

with_numpy() { # the first Python 3.9 or later that has numpy; BUILD/py-fuzz is where one may put its own
    local python
    for python in "${PYTHON:-python3}" "$build"/py-fuzz/bin/python /usr/bin/python3; do
        "$python" -c 'import sys, numpy; sys.exit(sys.version_info < (3, 9))' > /dev/null 2>&1 && echo "$python" && return
    done
    return 1
}

targets=(tests/fuzz/fuzz_*.c)
targets=("${targets[@]##*/}")
targets=("${targets[@]%.c}")
# `make check` needs no Python. The package loads the shared library, which sanitized and static builds lack.
[ -z "${BUDGET-}" ] || [ ! -f "$build/libsamebit.so.0" ] || targets+=(python)
case "${1-}" in
    --list) printf '%s\n' "${targets[@]}" && exit ;;
    ?*) targets=("$@") ;;
esac
for target in "${targets[@]}"; do
    count=$mutations
    case $target in # which files of the corpus are of its kind
        fuzz_config | fuzz_declared) files=(golden/bad/config-*.json) ;;
        fuzz_index) files=(-e .index.json golden/bad) ;;
        fuzz_safetensors) files=(-e .safetensors golden/bad) ;;
        fuzz_loaded) files=(golden/check/seed-loaded.json) ;;
        fuzz_tokenizer) files=(-e .tokenizer golden/tokenizer) ;;
        fuzz_state) files=(-e .state golden/state) ;;
        fuzz_trace) files=(-e .trace golden/trace) ;;
        fuzz_gate) files=(golden/gate) ;;
        fuzz_npy) files=(-e .npy golden/dumps/arrays) ;;
        fuzz_pickle) files=(-e .pickle golden/dumps/arrays) ;;
        fuzz_zip) files=(golden/dumps/arrays/{arrays,packed}.npz golden/dumps/arrays/{nested,protocol4}.pt) ;;
        fuzz_kld) files=(golden/dumps/seed-kld.bin) ;;
        fuzz_logprobs_json) files=(-e .json golden/dumps) count=$((mutations / 4)) ;;
        fuzz_observed) files=(golden/check/seed-observed{.metrics,-sglang.json,-llama.json}) ;;
        fuzz_waivers) files=(golden/check/seed.waivers) ;;
        fuzz_drafts) files=(-e .drafts golden/drafts) ;;
        # each input is a whole check, which takes milliseconds; for this target and the next ones, any bytes are the
        # key of the changes
        fuzz_folder) files=(golden/bad/EXPECTED) count=$((mutations / 40)) ;;
        fuzz_generation) files=(golden/bad/EXPECTED) count=$((mutations / 20)) ;;
        fuzz_sglang) files=(golden/bad/EXPECTED) count=$((mutations / 10)) ;;
        fuzz_bundle) files=(golden/bad/EXPECTED) count=$((mutations / 20)) ;; # a whole replay
        fuzz_command) files=(golden/bad/EXPECTED) count=$((mutations / 100)) ;; # a whole process
        fuzz_check) files=(-e .checkpoint golden/check) count=$((mutations / 20)) ;;
        *) files=(golden/bad) ;;
    esac
    amount=(-n "$count")
    [ -z "${BUDGET-}" ] || amount=(-t "$BUDGET")
    if [ "$target" = python ]; then
        python=$(with_numpy) || { skipped=$((skipped + 1)) && echo "SKIPPED python: no Python 3.9 or later has numpy"; continue; }
        amount=(--calls "$((mutations / 20))")
        [ -z "${BUDGET-}" ] || amount=(--seconds "$BUDGET")
        command=(env SAMEBIT="$(realpath "$build/samebit")" SAMEBIT_LIBRARY="$(realpath "$build/libsamebit.so.0")"
            PYTHONPATH="$PWD/tools/py" "$python" tools/py/tests/boundary.py "${amount[@]}" --seed "${SEED:-42}")
    else
        command=("$build/tests/fuzz/$target" "${amount[@]}" -s "${SEED:-1}" "${files[@]}")
    fi
    if "${command[@]}"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1)) && echo "FAILED $target: ${command[*]}"
    fi
done
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ]
