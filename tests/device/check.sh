#!/usr/bin/env bash
# Every check that needs a device, in one command: make check-gpu, or check.sh of a bundle (make gpu-bundle).
#
#   check.sh [--limit S] [--patience S] [--jobs N] [--engine E] [--small] [PART...]
#
#   --limit S     seconds in all (560); the most important parts come first, and those not reached are SKIPPED
#   --patience S  seconds that one case may take (240); a case that takes longer hangs, and has FAILED
#   --jobs N      the number of cases that run at the same time
#   --engine E    another engine instead of gpu, to try the command itself: emu
#   --small       only the first cases of each part, and few repetitions
#   PART          atoms twin diff runs whole math sanitizer; without a name, all of them
#
# The last line is `N passed, N failed, N skipped`. The exit status is 1 if anything failed, and 4 if
# something was skipped. Without a device everything is skipped, and each part says which of its claims are
# not shown.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 2
if [ -d "$here/bin" ]; then
    cd "$here" || exit 2
    bin=$here/bin tests=$here/bin
    export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
    cd "$here/../.." || exit 2
    BUILD=${BUILD:-build}
    bin=$BUILD tests=$BUILD/tests/gpu
fi
export LC_ALL=C
limit=560 patience=240 jobs=$(nproc) engine=gpu small=
while [ $# -gt 0 ]; do
    case $1 in
        --limit | --patience | --jobs | --engine) declare "${1#--}=${2?$1 wants a value}" && shift ;;
        --small) small=1 ;;
        -*) echo "check.sh: $1 is no option; its head lists them" >&2; exit 2 ;;
        *) break ;;
    esac
    shift
done
[[ "$limit$jobs" =~ ^[0-9]+$ ]] || { echo "check.sh: --limit and --jobs are numbers" >&2; exit 2; }
[[ $patience =~ ^[0-9]*[.]?[0-9]+$ ]] || { echo "check.sh: --patience is a number" >&2; exit 2; }
[ "$jobs" -le 12 ] || jobs=12
[ $# -gt 0 ] || set -- atoms twin diff runs whole math sanitizer
work=$(mktemp -d) || exit 2
children() { jobs -pr; }
trap 'kill $(children) 2> /dev/null; rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# --- cases: `try NAME COMMAND...` adds one to the list of the part, `part_ends` runs the list ---------------
names=() commands=()
try() {
    names+=("$1")
    shift
    commands+=("$(printf '%q ' "$@")")
}
skip() { printf 'SKIPPED %s: %s\n' "$1" "$2"; skipped=$((skipped + 1)); }
one() { # one INDEX DEADLINE: a case, if there is time to begin it
    local left=$(($2 - SECONDS)) status=125
    if [ $left -gt 0 ]; then
        timeout -k 5 "$patience" bash -c "${commands[$1]}" > "$work/$1.log" 2>&1 < /dev/null
        status=$?
    fi
    echo $status > "$work/$1.status"
}
verdict() { # verdict INDEX: its own count, or its status
    local name=${names[$1]} log=$work/$1.log status last
    status=$(cat "$work/$1.status" 2> /dev/null || echo 125)
    last=$(tail -n 1 "$log" 2> /dev/null)
    case $status in
        125) skip "$name" "not reached in the time there was"; return ;;
        124 | 137)
            printf '[  FAILED  ] %s: hangs: stopped after %s s\n' "$name" "$patience"
            tail -n 12 "$log" | sed 's/^/    /'
            failed=$((failed + 1))
            return ;;
    esac
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
        sed '$d' "$log"
        local good=${BASH_REMATCH[1]} bad=${BASH_REMATCH[2]} rest=${BASH_REMATCH[4]:-0} want=0
        passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + rest))
        [ "$rest" = 0 ] || want=4
        [ "$bad" = 0 ] || want=1
        [ "$status" = $want ] || { echo "[  FAILED  ] $name: ends badly"; failed=$((failed + 1)); }
        return
    fi
    case $status in
        0) printf '[       OK ] %s: %s\n' "$name" "${last#\[*\] }"; passed=$((passed + 1)) ;;
        4) skip "$name" "$last" ;;
        *) printf '[  FAILED  ] %s: status %s\n' "$name" "$status"
           tail -n 12 "$log" | sed 's/^/    /'
           failed=$((failed + 1)) ;;
    esac
}
part_ends() { # part_ends SECONDS AT-ONCE
    local deadline=$((SECONDS + $1)) i
    [ $deadline -le "$limit" ] || deadline=$limit
    for i in "${!names[@]}"; do
        while [ "$(children | wc -l)" -ge "$2" ]; do wait -n; done
        one "$i" $deadline &
    done
    wait
    for i in "${!names[@]}"; do verdict "$i"; rm -f "$work/$i".*; done
    names=() commands=()
}
# whether the part has enough cases for --small
few() { [ -n "$small" ] && [ ${#names[@]} -ge "${1:-2}" ]; }

# --- the checks -------------------------------------------------------------------------------------------
# checkpoint PRESET FORMAT [OPTION...]: makes it once; its folder is in $made. If the time is over, no checkpoint is
# made, and its cases are not reached. A checkpoint that cannot be made is a failure.
checkpoint() {
    made=$work/$1-$2
    [ $SECONDS -lt "$limit" ] || return 0
    [ -d "$made" ] || "$bin/samebit" make "$made" --preset "$1" --format "$2" --recipe predictable "${@:3}" \
        > "$work/make.log" 2>&1 ||
        { cat "$work/make.log"; echo "[  FAILED  ] $1 $2 cannot be made"; failed=$((failed + 1)); return 1; }
}
# PROFILE PRESET FORMAT, the most important first; for profiles with quantized inputs, the formats that have
# them
pairs() {
    cat << END
sm121 T1 bf16
sm121-w4a4 T1 nvfp4-ct
sm121-w8a8 T1 fp8-block
sm121 T1 nvfp4-ct
sm121 T1 fp8-block
sm121 T1 int4-gptq
sm121 T1 nvfp4a16-ct
sm121-w8a8 T1 fp8-channel
sm121-w8a8 T1 fp8-tensor
sm121 T2 bf16
sm121 T1 int4-awq
sm121-w4a4 T1 nvidia-mix
sm121 T1 int4-autoround
sm121 T1 fp8-channel
sm121 T3 bf16
sm121 T4 bf16
sm121 T5 bf16
sm121 T6 bf16
sm121 T1 mxfp4
sm121 T1 int8-gptq
sm121 T1 int4-ct
sm121 T1 mxfp8
sm121-w4a4 T1 nvfp4-modelopt
sm121 T2 nvfp4-ct
sm121-w8a8 T2 fp8-block
sm121-w4a4 T2 nvfp4-ct
sm121 T1 fp8-block-ue8m0
sm121 T1 int4-fp8-hybrid
END
}
each_pair() { # each_pair FUNCTION: with PROFILE, NAME; the folder is in $made
    local profile preset format
    while read -r profile preset format; do
        few && break
        checkpoint "$preset" "$format" || continue
        "$1" "$profile" "$preset $format $profile"
    done < <(pairs)
}

part_atoms() {
    local count=1000000 instead=
    [ -z "$small" ] || count=600
    [ "$engine" = gpu ] || instead=host
    try atoms "$tests/device_atoms" $count 60 $instead
    part_ends 80 1
}

one_twin() { try "twin, $2, prompt 4" "$tests/device_ops" twin emu "$engine" "$1" "$made" 4 3; }
part_twin() {
    export OMP_NUM_THREADS=1
    each_pair one_twin
    checkpoint T1 bf16
    for prompt in 17 65 1 2 9 130; do
        few 3 || try "twin, T1 bf16 sm121, prompt $prompt" "$tests/device_ops" twin emu "$engine" sm121 "$made" $prompt 8
    done
    part_ends 170 "$jobs"
}

one_diff() { try "diff, $2" "$bin/samebit" diff "$made" --engine "$engine" --profile "$1" --tokens 1,2,3,4,5 -n 6 --draft 3; }
part_diff() {
    export OMP_NUM_THREADS=1
    each_pair one_diff
    checkpoint T1 bf16
    few 3 || [ "$engine" != gpu ] ||
        try "diff versus emu, T1" "$bin/samebit" diff "$made" --engine "$engine" --versus emu --profile sm121 --tokens 1,2,3 -n 3
    # a part of the chunked rule; attention over two parts; and more pairs of experts than a set holds
    few 3 || try "diff, T1 bf16 sm121, delta_rule=prompt_fla, prompt 130" "$bin/samebit" diff "$made" --engine "$engine" \
        --profile sm121 --set delta_rule=prompt_fla --tokens "$(seq -s, 130)" --rows 200 -n 2
    few 3 || try "diff, T1 bf16 sm121, prompt 300" "$bin/samebit" diff "$made" --engine "$engine" --profile sm121 \
        --tokens "$(seq -s, 200),$(seq -s, 100)" --rows 300 -n 2
    part_ends 70 "$jobs"
}

# compares tokens, logits and states of both, as `run` prints them
same_runs() { # PROFILE FOLDER ENGINE [OPTION...]
    local way out=$2.$1.$3.$BASHPID
    for way in emu "$3"; do
        "$bin/samebit" run "$2" --tokens 3,1,2 -n 6 --draft 3,0,1 --profile "$1" --backend "$way" \
            "${@:4}" > "$out.$way.run" || return
    done
    cmp "$out.emu.run" "$out.$3.run" && echo "the tokens, logits and states of emu and $3 are the same"
}
one_run() { try "run, $2" same_runs "$1" "$made" "$engine"; }
part_runs() {
    export -f same_runs
    export bin OMP_NUM_THREADS=1
    each_pair one_run
    local options
    checkpoint T1 bf16
    for options in "--temp 0.8 --top-p 0.9 --top-k 40" "--temp 0.8 --accept-mode residual" "--set kv_cache=fp8"; do
        # shellcheck disable=SC2086
        few || try "run, T1 bf16 sm121 $options" same_runs sm121 "$made" "$engine" $options
    done
    part_ends 60 "$jobs"
}

part_whole() {
    local repeats=100 what
    [ -z "$small" ] || repeats=2
    for what in "T1 bf16 sm121" "T1 nvfp4-ct sm121-w4a4" "T2 bf16 sm121" "T1 fp8-block sm121-w8a8" "T1 int4-gptq sm121"; do
        read -r preset format profile <<< "$what"
        few && break
        checkpoint "$preset" "$format" || continue
        try "1 to 9 rows, $what" "$tests/device_ops" widths "$engine" "$profile" "$made"
        try "launches and graphs, $what" "$tests/device_ops" graphs "$engine" "$profile" "$made"
        try "op by op and fused, $what" "$tests/device_ops" fused "$engine" "$profile" "$made"
        try "with drafts and without, $what" "$tests/device_ops" rounds "$engine" "$profile" "$made"
    done
    few || try "layers that no checkpoint has" "$tests/device_ops" layers emu "$engine"
    for what in "T1 bf16 sm121" "T2 bf16 sm121"; do
        read -r preset format profile <<< "$what"
        checkpoint "$preset" "$format" || continue
        few 3 || try "$repeats repeats, $what" "$tests/device_ops" repeats "$engine" "$profile" "$made" $repeats
    done
    part_ends 90 "$jobs"
}

part_math() {
    local step=61 instead=
    [ -z "$small" ] || step=40961
    [ "$engine" = gpu ] || instead=host
    unset OMP_NUM_THREADS
    try functions "$tests/device_math" $step 50 $instead
    part_ends 70 1
}

part_sanitizer() {
    local tool what preset format profile sanitizer
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null)
    export OMP_NUM_THREADS=1
    for what in "T1 bf16 sm121" "T2 bf16 sm121" "T1 nvfp4-ct sm121-w4a4" "T1 fp8-block sm121-w8a8" \
        "T2 nvfp4-ct sm121-w4a4" "T2 fp8-block sm121-w8a8"; do
        read -r preset format profile <<< "$what"
        for tool in memcheck racecheck; do
            if [ -z "$sanitizer" ]; then
                skip "$tool, $what" "compute-sanitizer is not installed"
                continue
            fi
            checkpoint $preset $format || continue
            try "$tool, $what" "$sanitizer" --tool $tool --error-exitcode 9 "$bin/samebit" run "$made" --tokens 1,2,3 \
                -n 2 --draft 1 --profile $profile --backend "$engine"
        done
    done
    part_ends 140 4
}

shows() { # what is not shown where a part is not run
    case $1 in
        atoms) echo "that the matrix instructions and conversions of a device give the bits of their models" ;;
        twin) echo "that every op gives on a device the bits that it gives on the emulator" ;;
        diff) echo "that the kernels on a device lie within the bounds of the reference" ;;
        runs) echo "that tokens, logits and states on a device are those on the emulator" ;;
        whole) echo "that on a device no bit of a row depends on the width of a verify, on drafts, or on the run" ;;
        math) echo "that the functions as nvcc compiles them are correctly rounded" ;;
        sanitizer) echo "that compute-sanitizer finds no wrong access and no race" ;;
        *) return 1 ;;
    esac
}

for part in "$@"; do shows "$part" > /dev/null || { echo "check.sh: there is no part $part" >&2; exit 2; }; done
for program in "$bin/samebit" "$tests/device_ops"; do
    [ -x "$program" ] || { echo "$program is not built: make check-gpu" >&2; exit 2; }
done
limit=$((limit + 1)) checkpoint T1 bf16 || exit 2
"$tests/device_ops" twin "$engine" "$engine" sm121 "$made" 0 0 > /dev/null 2> "$work/absent" # no prompt: wrong use
if [ $? = 4 ]; then
    printf 'there is no device: %s\nWhat has therefore not been shown:\n' "$(sed 's/^[a-z_]*: //' "$work/absent")"
    for part in "$@"; do skip "$part" "$(shows "$part")"; done
else
    nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2> /dev/null
    for part in "$@"; do
        printf -- '--- %s: %s\n' "$part" "$(shows "$part")"
        began=$SECONDS
        "part_$part"
        printf -- '--- %s: %d s\n' "$part" $((SECONDS - began))
    done
fi
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] || exit 4
