#!/usr/bin/env bash
# Every check that needs a device, in one command: make check-gpu, or check.sh of a bundle (make gpu-bundle).
#
#   check.sh [--limit S] [--patience S] [--jobs N] [--engine E] [--small] [--keep DIR] [--again] [PART...]
#   check.sh --record DIR   writes the digests of the emulator, golden/device, with which `digests` compares
#
#   --limit S     seconds in all (590); the parts come in the order below, and a second call continues with what
#                 the first had no time for
#   --patience S  seconds that a case may be silent (24); then it hangs, is stopped, and has FAILED
#   --jobs N      the number of cases that run at the same time
#   --engine E    another engine instead of gpu, to try the command itself: emu
#   --small       only the first cases of each part, and few repetitions
#   --keep DIR    what is kept (build/check-gpu, or results beside check.sh of a bundle): in a folder for this
#                 build the output of each case, what differed, the state of the device
#   --again       forgets what earlier calls have found with this build
#   PART          preflight atoms rates steps replays bench digests sanitizer math ncu twin diff runs whole;
#                 without a name, all of them
#
# The last line is `N passed, N failed, N skipped`, earlier calls included. The exit status is 1 if anything
# failed, and 4 if something was skipped. Without a device everything is skipped, and each part says which of its
# claims are not shown.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 2
if [ -d "$here/bin" ]; then
    cd "$here" || exit 2
    bin=$here/bin tests=$here/bin keep=$here/results
    export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
    cd "$here/../.." || exit 2
    BUILD=${BUILD:-build}
    bin=$BUILD tests=$BUILD/tests/gpu keep=$BUILD/check-gpu
fi
export LC_ALL=C
limit=590 patience=24 jobs=$(nproc) engine=gpu small='' again='' record=''
all='preflight atoms rates steps replays bench digests sanitizer math ncu twin diff runs whole'
while [ $# -gt 0 ]; do
    case $1 in
        --limit | --patience | --jobs | --engine | --keep | --record)
            declare "${1#--}=${2?$1 wants a value}" && shift ;;
        --small | --again) declare "${1#--}=1" ;;
        -*) echo "check.sh: $1 is no option; its head lists them" >&2; exit 2 ;;
        *) break ;;
    esac
    shift
done
[[ "$limit$jobs" =~ ^[0-9]+$ ]] || { echo "check.sh: --limit and --jobs are numbers" >&2; exit 2; }
[[ $patience =~ ^[0-9]*[.]?[0-9]+$ ]] || { echo "check.sh: --patience is a number" >&2; exit 2; }
[ "$jobs" -le 12 ] || jobs=12
long_patience=$(awk -v s="$patience" 'BEGIN { print 5 * s }') # of cases with the emulator, and of the sanitizer
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $all
work=$(mktemp -d) || exit 2
mkfifo "$work/never" && exec {never}<> "$work/never" || exit 2 # nobody writes there: a read from it only waits
children() { jobs -pr; }
trap 'kill $(children) 2> /dev/null; rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0 dead=''

# --- cases: `try NAME COMMAND...` adds one to the list of the part, `part_ends` runs the list ---------------
# The file $kept/done has a line for each case that an earlier call has ended: passed, failed, skipped, NAME. A case
# that was not reached, or whose tool was not there, has none.
names=() commands=()
file_of() { printf '%s' "${1//[^A-Za-z0-9.=+-]/_}"; }
try() {
    names+=("$1")
    shift
    commands+=("$(printf '%q ' "$@")")
}
skip() { printf 'SKIPPED %s: %s\n' "$1" "$2"; skipped=$((skipped + 1)); }
counts() { # counts NAME PASSED FAILED SKIPPED: adds the counts of a case, and keeps them
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    printf '%d\t%d\t%d\t%s\n' "$2" "$3" "$4" "$1" >> "$kept/done"
}
before() { # before NAME: what an earlier call has found; fails if it has found nothing
    local good bad rest
    IFS=$'\t' read -r good bad rest _ < <(awk -F'\t' -v name="$1" '$4 == name' "$kept/done") || return
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + rest))
    [ "$bad" = 0 ] || printf '[  FAILED  ] %s: in an earlier call; see %s\n' "$1" "$kept/$(file_of "$1").log"
}
# watch PID LOG MARK: stops a case whose log stands still for a time of $patience
watch() {
    local nap size last=-1 still=0
    nap=$(awk -v s="$patience" 'BEGIN { print s / 4 }')
    while :; do
        read -rt "$nap" -u "$never"
        size=$(stat -c %s "$2")
        still=$((size == last ? still + 1 : 0)) last=$size
        [ $still -ge 4 ] || continue
        : > "$3"
        kill "$1"
        return
    done
}
one() { # one INDEX DEADLINE: a case, if there is time to begin it
    local log guard pid status=125
    log=$kept/$(file_of "${names[$1]}").log
    if [ $SECONDS -lt "$2" ]; then
        timeout -k 5 "$limit" bash -c "${commands[$1]}" > "$log" 2>&1 < /dev/null &
        pid=$!
        watch $pid "$log" "$work/$1.hangs" &
        guard=$!
        wait $pid
        status=$?
        kill $guard 2> /dev/null
        wait $guard 2> /dev/null
    fi
    echo $status > "$work/$1.status"
}
show() { sed 's/^/    /' <(tail -n 12 "$1"); printf '    (all of it: %s)\n' "$1"; }
verdict() { # verdict INDEX: its own count, or its status
    local name=${names[$1]} log status last
    log=$kept/$(file_of "$name").log
    status=$(cat "$work/$1.status" 2> /dev/null || echo 125)
    if [ "$status" = 125 ]; then
        skip "$name" "not reached in the time there was"
        return
    fi
    last=$(tail -n 1 "$log")
    if [ -e "$work/$1.hangs" ] || [ "$status" = 124 ] || [ "$status" = 137 ]; then
        printf '[  FAILED  ] %s: hangs: stopped after %s s without a word; its last one:\n' "$name" "$patience"
        show "$log"
        counts "$name" 0 1 0
        hung=$name
        return
    fi
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
        sed '$d' "$log"
        local good=${BASH_REMATCH[1]} bad=${BASH_REMATCH[2]} rest=${BASH_REMATCH[4]:-0} want=0
        [ "$rest" = 0 ] || want=4
        [ "$bad" = 0 ] || want=1
        [ "$status" = $want ] || { echo "[  FAILED  ] $name: ends badly"; bad=$((bad + 1)); }
        if [ "$rest" = 0 ]; then
            counts "$name" "$good" "$bad" 0
        else # a second call may have more time for it
            passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + rest))
        fi
        return
    fi
    case $status in
        0) printf '[       OK ] %s: %s\n' "$name" "${last#\[*\] }"; counts "$name" 1 0 0 ;;
        4) skip "$name" "$last" ;;
        *) printf '[  FAILED  ] %s: status %s\n' "$name" "$status"; show "$log"; counts "$name" 0 1 0 ;;
    esac
}
# alive: whether the device still computes, after a case that was stopped
alive() {
    timeout -k 2 "$patience" "$tests/device_ops" told "$engine" sm121 "$work/T1-bf16" 1 0 > "$kept/alive.log" 2>&1
}
part_ends() { # part_ends SECONDS AT-ONCE
    local deadline=$((SECONDS + $1)) i hung='' pids=()
    [ $deadline -le "$limit" ] || deadline=$limit
    for i in "${!names[@]}"; do
        before "${names[$i]}" && unset "names[$i]" && continue
        [ -z "$dead" ] && continue
        skip "${names[$i]}" "$dead" && unset "names[$i]"
    done
    for i in "${!names[@]}"; do
        while [ "$(children | wc -l)" -ge $(($2 + ticking)) ]; do wait -n; done
        one "$i" $deadline 2> /dev/null &
        pids+=($!)
    done
    [ ${#pids[@]} = 0 ] || wait "${pids[@]}" # without a name it would wait for all, the clocks too
    for i in "${!names[@]}"; do verdict "$i"; rm -f "$work/$i".*; done
    names=() commands=()
    [ -z "$hung" ] || alive || dead="the device does not answer any more, since $hung"
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

# a few of them, for what takes longer
first_pairs() {
    cat << END
sm121 T1 bf16
sm121-w4a4 T1 nvfp4-ct
sm121-w8a8 T1 fp8-block
sm121 T2 bf16
sm121 T1 int4-gptq
END
}

# each_of LIST FUNCTION: calls it with PROFILE, NAME for each line of pairs or first_pairs; the folder is in $made
each_of() {
    local profile preset format
    while read -r profile preset format; do
        few && break
        checkpoint "$preset" "$format" || continue
        "$2" "$profile" "$preset $format $profile"
    done < <("$1")
}

# one token through every op, family by family: the last line of a case that hangs has the name of the op
part_preflight() {
    local profile preset format
    while read -r profile preset format; do
        checkpoint "$preset" "$format" || continue
        try "every kind of kernel once, $preset $format $profile" \
            "$tests/device_ops" told "$engine" "$profile" "$made" 1 0
    done < <(first_pairs | head -n "$([ -n "$small" ] && echo 1 || echo 3)")
    part_ends 30 1
}

part_atoms() {
    local count=1000000 instead=device
    [ -z "$small" ] || count=600
    [ "$engine" = gpu ] || instead=host
    mkdir -p "$kept/atoms"
    try atoms "$tests/device_atoms" $count 40 $instead "$kept/atoms"
    part_ends 60 1
}
# differs PROFILE: an atom of this profile does not have the bits of its model, so that the emulator's digests say
# nothing about the rest of it
differs() {
    local atoms='bf16|f16|conversions|ldmatrix'
    case $1 in
        *w4a4) atoms+='|nvfp4[^:]*' ;;
        *w8a8) atoms+='|e4m3[^:]*' ;;
    esac
    [ -e "$kept/atoms.log" ] && grep -qE "FAILED.* atom ($atoms):" "$kept/atoms.log"
}

part_rates() {
    try "rates of the card" "$bin/samebit" bench decode --preset T1 --backend "$engine"
    part_ends 40 1
}

one_way() { try "every way of a step, $2" "$tests/device_ops" ways "$engine" "$1" "$made"; }
one_graph() {
    few 3 && return
    try "launches and graphs, $2" "$tests/device_ops" graphs "$engine" "$1" "$made"
    try "op by op and fused, $2" "$tests/device_ops" fused "$engine" "$1" "$made"
}
part_steps() {
    each_of first_pairs one_way
    each_of first_pairs one_graph
    part_ends 90 "$jobs"
}

one_replay() { # the program of the jitter build sleeps around ready and wait
    local count=1000 sleepy=$tests/device_ops_jitter
    [ -z "$small" ] || count=2
    try "$count replays, $2" "$tests/device_ops" replays "$engine" "$1" "$made" $count
    if [ ! -x "$sleepy" ]; then
        skip "replays with jitter, $2" "there is no $sleepy: make $sleepy"
        return
    fi
    try "replays with jitter, $2" "$sleepy" replays "$engine" "$1" "$made" $((count > 200 ? 200 : count))
    few 3 || try "every way of a step with jitter, $2" "$sleepy" ways "$engine" "$1" "$made"
}
part_replays() {
    each_of first_pairs one_replay
    part_ends 60 2
}

part_bench() {
    local preset=35b-a3b context=8192
    [ "$engine" = gpu ] || preset=T1 context=40
    try "a decode step, $preset" "$bin/samebit" bench decode --preset $preset --backend "$engine"
    few 1 || try "a decode step after $context tokens, $preset" "$bin/samebit" bench decode --preset $preset \
        --context $context --backend "$engine"
    few 1 || try "a verify of four rows, $preset" "$bin/samebit" bench verify --preset $preset --draft 3 \
        --backend "$engine"
    part_ends 90 1
}

# compares the digest of each op with the recorded one of the emulator, or, if an atom differs, with a second run
told_again() { # FILE ENGINE PROFILE FOLDER
    local got=$work/told.$BASHPID want=$1
    if [ ! -e "$want" ]; then
        want=$got.first
        "$tests/device_ops" told "${@:2}" 4 2 > "$want" || return
    fi
    "$tests/device_ops" told "${@:2}" 4 2 > "$got" || { cat "$got"; return 1; }
    if cmp -s "$want" "$got"; then
        echo "$(tail -n 1 "$got"), as $([ "$want" = "$1" ] && echo recorded || echo in the first run)"
        return
    fi
    echo "$(paste -d '#' "$want" "$got" | awk -F'#' '$1 != $2' | wc -l) of $(wc -l < "$want") lines differ; the first:"
    paste -d '#' "$want" "$got" | awk -F'#' '$1 != $2 { print "recorded: " $1; print "computed: " $2; exit }'
    cat "$got" > "$kept/$(basename "$1" .txt).computed"
    return 1
}
recorded=golden/device
one_digest() {
    local file
    file=$recorded/$(file_of "$2").txt
    if differs "$1"; then
        try "digests of ops, $2, of the device beside itself, because an atom differs" \
            told_again none "$engine" "$1" "$made"
    elif [ -e "$file" ]; then
        try "digests of ops, $2" told_again "$file" "$engine" "$1" "$made"
    else
        echo "[  FAILED  ] digests of ops, $2: there is no $file" && failed=$((failed + 1))
    fi
}
part_digests() {
    export -f told_again
    export tests work kept OMP_NUM_THREADS=1
    each_of pairs one_digest
    part_ends 100 "$jobs"
}
one_record() {
    local file
    file=$record/$(file_of "$2").txt
    "$tests/device_ops" told emu "$1" "$made" 4 2 > "$file" && echo "$file: $(tail -n 1 "$file")"
}

one_twin() {
    local beside=emu folder name="twin, $2, prompt 4"
    folder=$kept/twin_$(file_of "$2")
    if differs "$1"; then
        beside=$engine name+=", of the device beside itself, because an atom differs"
    fi
    mkdir -p "$folder"
    try "$name" "$tests/device_ops" twin $beside "$engine" "$1" "$made" 4 3 "$folder"
}
part_twin() {
    local patience=$long_patience
    export OMP_NUM_THREADS=1
    each_of pairs one_twin
    checkpoint T1 bf16
    for prompt in 17 65 1 2 9 130; do
        few 3 || try "twin, T1 bf16 sm121, prompt $prompt" \
            "$tests/device_ops" twin emu "$engine" sm121 "$made" $prompt 8
    done
    part_ends 170 "$jobs"
    rmdir "$kept"/twin_* 2> /dev/null # those without a difference
}
one_diff() { try "diff, $2" "$bin/samebit" diff "$made" --engine "$engine" --profile "$1" --tokens 1,2,3,4,5 -n 6 --draft 3; }
part_diff() {
    local patience=$long_patience
    export OMP_NUM_THREADS=1
    each_of pairs one_diff
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
    local way out
    out=$kept/run_$(basename "$2").$1.$BASHPID
    for way in emu "$3"; do
        "$bin/samebit" run "$2" --tokens 3,1,2 -n 6 --draft 3,0,1 --profile "$1" --backend "$way" \
            "${@:4}" > "$out.$way.run" || return
    done
    cmp "$out.emu.run" "$out.$3.run" && echo "the tokens, logits and states of emu and $3 are the same"
}
one_run() { try "run, $2" same_runs "$1" "$made" "$engine"; }
part_runs() {
    local patience=$long_patience
    export -f same_runs
    export bin kept OMP_NUM_THREADS=1
    each_of pairs one_run
    local options
    checkpoint T1 bf16
    for options in "--temp 0.8 --top-p 0.9 --top-k 40" "--temp 0.8 --accept-mode residual" "--set kv_cache=fp8"; do
        # shellcheck disable=SC2086
        few || try "run, T1 bf16 sm121 $options" same_runs sm121 "$made" "$engine" $options
    done
    part_ends 60 "$jobs"
}

one_whole() {
    try "1 to 9 rows, $2" "$tests/device_ops" widths "$engine" "$1" "$made"
    few || try "with drafts and without, $2" "$tests/device_ops" rounds "$engine" "$1" "$made"
}
part_whole() {
    local repeats=100 what
    [ -z "$small" ] || repeats=2
    each_of first_pairs one_whole
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

one_sanitized() {
    local tool
    for tool in memcheck racecheck initcheck synccheck; do
        few 4 && return
        if [ -z "$sanitizer" ]; then
            skip "$tool of a fused step and its graphs, $2" "compute-sanitizer is not installed"
            continue
        fi
        try "$tool of a fused step and its graphs, $2" "$sanitizer" --tool $tool --error-exitcode 9 \
            "$tests/device_ops" replays "$engine" "$1" "$made" 2
    done
    [ -z "$sanitizer" ] || few 4 || try "memcheck of a run op by op, $2" \
        "$sanitizer" --tool memcheck --error-exitcode 9 \
        "$bin/samebit" run "$made" --no-step --tokens 1,2,3 -n 2 --draft 1 --profile "$1" --backend "$engine"
}
part_sanitizer() {
    local sanitizer patience=$long_patience
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null)
    export OMP_NUM_THREADS=1
    each_of first_pairs one_sanitized
    part_ends 140 4
}

part_ncu() {
    local ncu kernel preset=35b-a3b
    [ "$engine" = gpu ] || preset=T1
    ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu 2> /dev/null)
    for kernel in sb_linear_kernel sb_expert_linear sb_gdn_kernel sb_attention_kernel sb_add_norm_kernel; do
        if [ -z "$ncu" ]; then
            skip "ncu of $kernel" "ncu is not installed"
        else
            few || try "ncu of $kernel" "$ncu" --set full --kernel-name "regex:$kernel" \
                --launch-skip 8 --launch-count 1 --export "$kept/$kernel" --force-overwrite --print-summary per-kernel \
                "$bin/samebit" bench decode --preset $preset --layers 4 --backend "$engine"
        fi
    done
    part_ends 80 1
}

shows() { # what is not shown where a part is not run
    case $1 in
        preflight) echo "that each kind of kernel runs on a device, and ends" ;;
        atoms) echo "that the matrix instructions and conversions of a device give the bits of their models" ;;
        rates) echo "the rates at which a device reads, copies, multiplies and launches" ;;
        steps) echo "that a step has the same bits op by op, launched, as graphs, fused, with dependent launches or not" ;;
        replays) echo "that a thousand replays, and launches that sleep around ready and wait, change no bit" ;;
        bench) echo "the time of a step of the 35B model, whole and per kernel" ;;
        digests) echo "that every op of whole models has on a device the digest that the emulator has recorded" ;;
        sanitizer) echo "that compute-sanitizer finds no wrong access, no race, no read of what was never written" ;;
        math) echo "that the functions as nvcc compiles them are correctly rounded" ;;
        ncu) echo "what keeps the five kernels with the most bytes from the memory's rate" ;;
        twin) echo "that every op gives on a device the bits that it gives on the emulator, with the same inputs" ;;
        diff) echo "that the kernels on a device lie within the bounds of the reference" ;;
        runs) echo "that tokens, logits and states on a device are those on the emulator" ;;
        whole) echo "that on a device no bit of a row depends on the width of a verify, on drafts, or on the run" ;;
        *) return 1 ;;
    esac
}

# --- the device itself: clocks, power, temperature, what slows it down --------------------------------------
ticking=0 # jobs that run all the time
record_device() {
    { date -u && uname -srm && sed -n 's/^PRETTY_NAME=//p' /etc/os-release && nproc && nvidia-smi -q; } \
        > "$kept/device.txt" 2>&1
    nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2> /dev/null || return
    nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active \
        --format=csv,noheader,nounits -l 1 >> "$kept/device.csv" 2> /dev/null &
    ticking=1
}
device_was() { # of all seconds recorded; bits of a slowdown: power, heat, the hardware's brakes
    local sm power heat reasons least='' most=0 watts=0 hottest=0 slow=0 n=0
    [ -s "$kept/device.csv" ] || return 0
    while IFS=', ' read -r sm _ power heat reasons; do
        [[ $sm =~ ^[0-9]+$ ]] || continue
        n=$((n + 1))
        [ -n "$least" ] && [ "$least" -le "$sm" ] || least=$sm
        [ "$most" -ge "$sm" ] || most=$sm
        power=${power%.*}
        [[ $power =~ ^[0-9]+$ ]] && [ "$power" -gt $watts ] && watts=$power
        [[ $heat =~ ^[0-9]+$ ]] && [ "$heat" -gt $hottest ] && hottest=$heat
        [[ $reasons =~ ^0x[0-9a-fA-F]+$ ]] && ((reasons & 0xec)) && slow=$((slow + 1))
    done < "$kept/device.csv"
    [ $n = 0 ] || echo "the device: $least to $most MHz, at most $watts W and $hottest degrees," \
        "slowed down in $slow of $n seconds"
}

for part in "$@"; do shows "$part" > /dev/null || { echo "check.sh: there is no part $part" >&2; exit 2; }; done
for program in "$bin/samebit" "$tests/device_ops"; do
    [ -x "$program" ] || { echo "$program is not built: make check-gpu" >&2; exit 2; }
done
if [ -n "$record" ]; then
    limit=100000
    mkdir -p "$record" && each_of pairs one_record
    exit
fi
# what one build has found says nothing about another one
kept=$keep/$(cat "$bin/samebit" "$tests"/device_* "$recorded"/* "$0" 2> /dev/null | sha256sum | head -c 12)
kept+=${small:+-small}
[ -z "$again" ] || rm -rf "$kept"
mkdir -p "$kept" && touch "$kept/done" || exit 2
export kept
export -f file_of
limit=$((limit + 1)) checkpoint T1 bf16 || exit 2
"$tests/device_ops" twin "$engine" "$engine" sm121 "$made" 0 0 > /dev/null 2> "$work/absent" # no prompt: wrong use
if [ $? = 4 ]; then
    printf 'there is no device: %s\nWhat has therefore not been shown:\n' "$(sed 's/^[a-z_]*: //' "$work/absent")"
    for part in "$@"; do skip "$part" "$(shows "$part")"; done
else
    [ "$engine" != gpu ] || record_device
    for part in "$@"; do
        printf -- '--- %s: %s\n' "$part" "$(shows "$part")"
        began=$SECONDS
        "part_$part"
        printf -- '--- %s: %d s\n' "$part" $((SECONDS - began))
    done
    device_was
    echo "kept: $kept"
fi
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] || exit 4
