#!/usr/bin/env bash
# The same bits on every machine: one fixed run of a synthetic checkpoint (T1, seed 42), runs of three
# quantized ones (T4), and the digests of the arithmetic, with every compiler, optimization, instruction set
# and number of threads, on x86-64, AArch64 and big-endian s390x. The first build writes the checkpoint, and
# its output is the expected one. Each other combination is one test: it must print the same JSON document or
# the same digests, or write the same checkpoint. Combinations whose tools are missing are SKIPPED by name.
#
#   tests/matrix.sh [PART...]   these parts, or all
#   tests/matrix.sh --list      their names
#
# Builds go to BUILD/matrix, where a second run finds them. BUILD must have been built (make). Parts can run
# at the same time.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
unset MAKEFLAGS MFLAGS MAKELEVEL SAMEBIT_ISA OMP_NUM_THREADS
export LC_ALL=C
parts=(s390x aarch64 kernels gcc clang) # emulated machines take longest
[ "${CHECK_ALL-}" = 1 ] || [ "$(uname -m)" != x86_64 ] || parts=(s390x kernels clang)
for i in "${!parts[@]}"; do # the machine on which we are is no other one
    [ "${parts[i]}" != "$(uname -m)" ] || unset "parts[i]"
done
case "${1-}" in
    --list) printf '%s\n' "${parts[@]}" && exit ;;
    ?*) parts=("$@") ;;
esac
plain=${BUILD:-build}
matrix=$plain/matrix
logs=$matrix/logs
jobs=${JOBS:-2}
passed=0 failed=0 skipped=0
# 70 tokens, more than a chunk of 64. If that takes long, their first 14, which is enough to share the
# loops of linear, delta_rule and delta_rule_chunk among threads.
prompt=$(seq 3 5 348 | tr '\n' ',') prompt=${prompt%,}
long=$prompt short=$(cut -d, -f1-14 <<< "$prompt")
few=$(cut -d, -f1-4 <<< "$prompt") # of an emulated machine: bytes and sums are what is looked at
eighth=8 # and of the digests of arithmetic, an eighth
[ "${CHECK_ALL-}" != 1 ] || short=$long few=$long eighth=1

mkdir -p "$logs"
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
model=$scratch/T1

# --- counting -------------------------------------------------------------------------------------------
skip() { skipped=$((skipped + 1)) && echo "SKIPPED $1: $2"; }
fail() { failed=$((failed + 1)) && echo "FAILED  $1: $2"; }
# same NAME WANTED GOT: the outputs are files
same() {
    if [ -s "$2" ] && cmp -s "$2" "$3"; then
        passed=$((passed + 1)) && echo "same    $1"
    else
        fail "$1" "another output"
        diff "$2" "$3" | head -n 8
    fi
}

# --- the three outputs ------------------------------------------------------------------------------------
# Runs with both profiles: exact, and hf, which rounds everywhere and has the chunked delta rule. Then a run with
# rounds.
run_model() { # run_model THREADS PROGRAM...: of the checkpoint in $model
    local threads=$1 profile
    shift
    for profile in exact hf; do
        "$@" run "$model" --tokens "$prompt" -n 4 --threads "$threads" --profile $profile --json ||
            return 1
    done
    # speculative and sampled, with accepted and rejected drafts
    "$@" run "$model" --tokens 3,8,13,18,23 -n 7 --draft 2,0,3 --force-accept 1,0,3,0 --seed 42 --temp 2 --top-p 0.9 \
        --threads "$threads" --json &&
        "$@" run "$model" --tokens 3,8,13,18,23 -n 4 --draft 2 --accept-mode residual --rollback replay --seed 42 \
            --temp 2 --min-p 0.01 --threads "$threads" --json
}
make_model() { # make_model FOLDER SEED PROGRAM...: with the ids of a text in it, of which some bytes are no UTF-8
    local folder=$1 seed=$2
    shift 2
    "$@" make "$folder" --preset T1 --recipe mistakes --seed "$seed" --tokenizer > /dev/null &&
        "$@" tokenize "$folder" $'The same bits, e\314\201t\303\251 it\'s  12\n\n\344\275\240\377<|im_end|>' \
            > "$folder/tokens"
}
# Quantized layers: three formats of the dense T4, written and run by one program, also with quantized inputs.
run_formats() { # run_formats PROGRAM...
    local format profile
    for format in nvfp4-ct fp8-block int4-gptq; do
        case $format in nvfp4*) profile=w4a4 ;; fp8*) profile=w8a8 ;; *) profile=hf ;; esac
        "$@" make "$scratch/format" --preset T4 --format $format --seed 42 --replace > /dev/null &&
            "$@" hash "$scratch/format" --values > "$scratch/manifest" && cat "$scratch/manifest" &&
            "$@" run "$scratch/format" --tokens 3,8,13,18,23 -n 2 --profile $profile --json || return 1
    done
    # a verdict with all of its parts: bounds, noise, an engine of plain binary32
    "$@" diff "$scratch/format" --engine sim:fma --tokens 3,8,13 -n 1 --json
}

# The kernels of the GPU path, computed by the emulator: only for the check of everything, as other checks
# build no C++ here.
run_emu() { # run_emu PROGRAM...
    local profile
    "$@" make "$scratch/emulated" --preset T4 --format nvfp4-ct --seed 42 --replace > /dev/null || return 1
    for profile in sm121 sm121-w4a4; do
        "$@" run "$scratch/emulated" --tokens 3,8,13 -n 2 --draft 1 --backend emu:3 --profile $profile --json || return 1
    done
}
agree_emu() { # agree_emu NAME PROGRAM...
    [ "${CHECK_ALL-}" != 1 ] || agree "$1, emulated kernels" "$scratch/emu" run_emu "${@:2}"
}

# agree NAME WANTED COMMAND...: the output is the wanted one
agree() {
    local name=$1 wanted=$2
    shift 2
    if "$@" > "$scratch/got" 2> "$scratch/errors"; then
        same "$name" "$wanted" "$scratch/got"
    else
        fail "$name" "status $?: $(head -n 1 "$scratch/errors")"
    fi
}
same_model() { # same_model NAME PROGRAM...: writes the same checkpoint
    local name=$1
    shift
    rm -rf "$scratch/again"
    if make_model "$scratch/again" 42 "$@" 2> "$scratch/errors" &&
        diff -rq "$model" "$scratch/again" > "$scratch/errors"; then
        passed=$((passed + 1)) && echo "same    $name"
    else
        fail "$name" "$(head -n 1 "$scratch/errors")"
    fi
}

# --- builds -----------------------------------------------------------------------------------------------
# built NAME SETTINGS...: builds the program and the digests into matrix/NAME, or fails as one test. No output
# comes from a GPU kernel: only the check of everything builds the kernels with other compilers.
built() {
    local name=$1
    shift
    [ "${CHECK_ALL-}" = 1 ] || set -- "$@" CXX=none
    make -s -j"$jobs" BUILD="$matrix/$name" NVCC= "$@" program "$matrix/$name/tests/arith_digest" \
        > "$logs/$name" 2>&1 && return 0
    fail "build $name" "$(grep -m 1 -E 'error|Error' "$logs/$name")"
    return 1
}
works() { printf 'int main(void){return 0;}' | "$@" -x c - -o /dev/null > /dev/null 2>&1; }
cpu_has() { # cpu_has FLAG...
    local flag
    for flag in "$@"; do grep -qwm1 "$flag" /proc/cpuinfo || return 1; done
}

# --- the answer -------------------------------------------------------------------------------------------
digest=$plain/tests/arith_digest
answer() {
    make_model "$model" 42 "$plain/samebit" && run_model 1 "$plain/samebit" > "$scratch/run" &&
        prompt=$short run_model 1 "$plain/samebit" > "$scratch/short" &&
        prompt=$few run_model 1 "$plain/samebit" > "$scratch/few" && "$digest" > "$scratch/digest" &&
        DIGEST_PART=$eighth "$digest" > "$scratch/eighth" &&
        run_formats "$plain/samebit" > "$scratch/formats" &&
        { [ "${CHECK_ALL-}" != 1 ] || run_emu "$plain/samebit" > "$scratch/emu"; }
}
if answer 2> "$scratch/errors" && [ "$(grep -c logits_digest "$scratch/run")" = 4 ] &&
    [ "$(wc -l < "$scratch/digest")" -ge 10 ]; then
    echo "the answer of $plain: run $(cksum < "$scratch/run" | cut -d' ' -f1)," \
        "arithmetic $(cksum < "$scratch/digest" | cut -d' ' -f1)"
else
    cat "$scratch/errors"
    echo "FAILED  $plain gives no answer"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi

# --- the parts -------------------------------------------------------------------------------------------
part_kernels() { # of one binary, and its threads
    local isa isas="scalar exact" wanted
    agree "threads 2" "$scratch/run" run_model 2 "$plain/samebit"
    same_model "the checkpoint, written again" "$plain/samebit"

    # a comparison that cannot fail would prove nothing: another seed gives another output
    make_model "$scratch/other" 43 "$plain/samebit"
    if model=$scratch/other run_model 1 "$plain/samebit" > "$scratch/got" && ! cmp -s "$scratch/run" "$scratch/got"; then
        passed=$((passed + 1)) && echo "differs seed 43"
    else
        fail "seed 43" "the same output as seed 42, or none"
    fi

    case $(uname -m) in x86_64) isas="$isas avx2 avx512 avx512vnni" ;; aarch64) isas="$isas neon" ;; esac
    for isa in $isas; do
        if [ $isa = avx2 ] && ! cpu_has avx2 fma f16c; then
            skip "SAMEBIT_ISA=avx2, both outputs" "this processor has no AVX2, FMA and F16C"
            continue
        elif [ $isa = avx512 ] && ! cpu_has avx512f avx512bw avx512dq avx512vl; then
            echo "not here: SAMEBIT_ISA=avx512: this processor has no AVX-512"
            continue
        elif [ $isa = avx512vnni ] && ! cpu_has avx512f avx512bw avx512dq avx512vl avx512_vnni; then
            echo "not here: SAMEBIT_ISA=avx512vnni: this processor has no VNNI"
            continue
        fi
        # the exact sums take ten times as long
        case $isa in exact) prompt=$short wanted=short ;; *) prompt=$long wanted=run ;; esac
        SAMEBIT_ISA=$isa agree "SAMEBIT_ISA=$isa" "$scratch/$wanted" run_model 1 "$plain/samebit"
        prompt=$long
        SAMEBIT_ISA=$isa agree "SAMEBIT_ISA=$isa, arithmetic" "$scratch/digest" "$digest"
        SAMEBIT_ISA=$isa agree "SAMEBIT_ISA=$isa, formats" "$scratch/formats" run_formats "$plain/samebit"
    done
}

# Sources with little run time have little arithmetic: only the check of everything optimizes them. With clang the
# same holds for comparisons and cases of judge; on an emulated machine, optimizing them saves more than it costs.
cold=(COLD_OPT=-O0 HOT="ref/formats/% ref/math/% ref/ops/% ref/fast/% tools/make/% tools/judge/bound/% tools/judge/sim/%")
[ "${CHECK_ALL-}" != 1 ] || cold=()

# Builds take most of the time. Every check builds clang's -O3 with AVX, and s390x, which has the other byte
# order. The others are built for the check of everything, or if AVX is not possible.
left_out() {
    case $1 in gcc-O3 | gcc-avx | clang-O0 | clang-O3)
        [ "${CHECK_ALL-}" != 1 ] && [ "$(uname -m)" = x86_64 ] && cpu_has avx2 fma ;;
        *) return 1 ;;
    esac
}
compiler() { # compiler CC: optimization and instruction sets
    local cc=$1 opt prompt wanted threads
    if ! works $cc; then
        skip "$cc, all builds" "no $cc"
        return
    fi
    for opt in -O0 -O3; do
        ! left_out $cc$opt || continue
        built $cc$opt CC=$cc OPT=$opt || continue
        case $opt in -O0) prompt=$short wanted=short ;; *) prompt=$long wanted=run ;; esac
        for threads in 1 2; do
            agree "$cc $opt, threads $threads" "$scratch/$wanted" run_model $threads \
                "$matrix/$cc$opt/samebit"
        done
        agree "$cc $opt, arithmetic" "$scratch/digest" "$matrix/$cc$opt/tests/arith_digest"
        agree "$cc $opt, formats" "$scratch/formats" run_formats "$matrix/$cc$opt/samebit"
        agree_emu "$cc $opt" "$matrix/$cc$opt/samebit"
        same_model "$cc $opt, the checkpoint" "$matrix/$cc$opt/samebit"
    done
    prompt=$long
    if [ "$(uname -m)" != x86_64 ]; then
        return # the next is for x86-64 only
    elif left_out $cc-avx; then
        :
    elif ! cpu_has avx2 fma; then
        skip "$cc -O3 -mavx2 -mfma" "this processor has no AVX2 and FMA"
    elif built $cc-avx CC=$cc OPT=-O3 EXTRA="-mavx2 -mfma" "${cold[@]}"; then
        agree "$cc -O3 -mavx2 -mfma" "$scratch/run" run_model 2 "$matrix/$cc-avx/samebit"
        agree "$cc -O3 -mavx2 -mfma, arithmetic" "$scratch/digest" "$matrix/$cc-avx/tests/arith_digest"
        agree "$cc -O3 -mavx2 -mfma, formats" "$scratch/formats" run_formats "$matrix/$cc-avx/samebit"
    fi
}
part_gcc() { compiler gcc; }
part_clang() { compiler clang; }

sysroot_has() { # sysroot_has ROOT MACHINE LIBRARY...
    local library root=$1 machine=$2
    for library in "${@:3}"; do
        [ -f "$root/lib/$machine-linux-gnu/lib$library.a" ] || return 1
    done
}
machine() { # machine NAME NAME-OF-DEBIAN: another machine than this
    local machine=$1 root=build/cross/$2/usr cc=$1-linux-gnu-gcc prompt=$few threads qemu
    local threads_there=2 # one thread is compared here; there both are, if all is asked for
    [ "${CHECK_ALL-}" != 1 ] || threads_there="1 2"
    qemu=$(command -v qemu-$machine || command -v qemu-$machine-static)
    if ! works $cc -static -pthread; then
        skip "$machine, all outputs" "no $cc"
    elif [ -z "$qemu" ]; then
        skip "$machine, all outputs" "no qemu-$machine"
    elif ! sysroot_has "$root" $machine jansson pcre2-8 utf8proc minizip z crypto; then
        skip "$machine, all outputs" "no jansson, PCRE2, utf8proc, minizip and libcrypto under build/cross (tools/deps cross)"
    elif built $machine CC=$cc OPT=-O1 "${cold[@]:0:1}" EXTRA=-static \
        JANSSON_CFLAGS="-isystem $root/include -isystem $root/include/$machine-linux-gnu" \
        JANSSON_LIBS="$root/lib/$machine-linux-gnu/libjansson.a" \
        PCRE2_LIBS="$root/lib/$machine-linux-gnu/libpcre2-8.a" \
        UTF8PROC_LIBS="$root/lib/$machine-linux-gnu/libutf8proc.a" \
        ZIP_LIBS="$root/lib/$machine-linux-gnu/libminizip.a $root/lib/$machine-linux-gnu/libz.a" \
        CRYPTO_LIBS="$root/lib/$machine-linux-gnu/libcrypto.a"; then
        for threads in $threads_there; do
            agree "$machine, threads $threads" "$scratch/few" run_model $threads "$qemu" \
                "$matrix/$machine/samebit"
        done
        DIGEST_PART=$eighth agree "$machine, arithmetic" "$scratch/eighth" "$qemu" "$matrix/$machine/tests/arith_digest"
        same_model "$machine, the checkpoint" "$qemu" "$matrix/$machine/samebit"
        agree "$machine, formats" "$scratch/formats" run_formats "$qemu" "$matrix/$machine/samebit"
        if [ $machine = s390x ]; then
            : # a GPU's memory is little-endian
        elif works $machine-linux-gnu-g++; then
            agree_emu "$machine" "$qemu" "$matrix/$machine/samebit"
        else
            skip "$machine, emulated kernels" "no $machine-linux-gnu-g++"
        fi
    fi
}
part_aarch64() {
    machine aarch64 arm64
    local digest=$matrix/aarch64/tests/arith_digest qemu
    qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) && [ -x "$digest" ] || return 0
    # by default the best kernels of AArch64 are chosen; the other kernels must give the same output
    SAMEBIT_ISA=scalar agree "aarch64, SAMEBIT_ISA=scalar, arithmetic" "$scratch/digest" "$qemu" "$digest"
    SAMEBIT_ISA=neon agree "aarch64, SAMEBIT_ISA=neon, formats" "$scratch/formats" run_formats "$qemu" \
        "$matrix/aarch64/samebit"
}
part_s390x() { machine s390x s390x; }

for part in "${parts[@]}"; do "part_$part"; done
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ]
