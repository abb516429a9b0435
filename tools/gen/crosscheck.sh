#!/usr/bin/env bash
# make crosscheck: comparisons with the real programs, live.
#
# Installs pinned torch and transformers into a virtual environment, loads every folder that `samebit make` can
# write into the real classes (no missing and no unexpected tensor), records their results again, and runs the
# comparison of `make check` on that recording. Then quant_record.sh makes the quantizers' environments and
# golden/quant again, and compares; sampler.py makes golden/sampler again. Ends with the line "N passed, N failed, N
# skipped".
set -uo pipefail

build=${BUILD:-build}
venv=$build/venv-hf
work=$build/crosscheck
. tools/gen/counts.sh

cat <<END
note    needs Python 3.11 or later, a C compiler and PyPI. The first call makes six Python environments in $build: each
note    is a download of 0.6 GB, takes 1.7 GB on disk and one to two minutes of processor time. Later calls reuse them.
END
section "the environment of torch and transformers"
tools/gen/venv.sh "$venv" || exit 1
mkdir -p "$work"

section "transformers loads what samebit make writes"
# A batch of folders for one process of Python: the import of torch takes longer than a small folder. The program
# must print a line "FOLDER: ok" for each.
batch="" names=()
new_batch() { # name
    batch=$work/$1 names=()
    rm -rf "$batch" && mkdir -p "$batch"
}
judge_batch() { # program, arguments before the folders
    local i status
    "$@" "$batch"/* >"$batch.log" 2>&1
    for i in "${!names[@]}"; do
        grep -a -q "^$batch/$i: ok" "$batch.log"
        status=$?
        report $status "${names[$i]}"
        [ $status -eq 0 ] || grep -a "^$batch/$i: " "$batch.log" || tail -n 5 "$batch.log"
    done
}

# Strict loading: presets, layouts, storages, expert layouts.
class_of() {
    case $1 in
        T4) echo Qwen3_5ForCausalLM ;;
        T5) echo Qwen3NextForCausalLM ;;
        T7) echo Qwen3MoeForCausalLM ;;
        T8) echo Qwen3ForCausalLM ;;
        *) echo Qwen3_5MoeForCausalLM ;;
    esac
}
strict() { # preset, further options of make
    "$build/samebit" make "$batch/${#names[@]}" --preset "$@" >/dev/null
    names+=("transformers loads: make --preset $*")
}
new_batch load
for preset in T1 T2 T3 T4 T5 T6 T7 T8; do
    strict "$preset"
    strict "$preset" --recipe predictable
done
for preset in T1 T4; do
    strict "$preset" --layout vl
    strict "$preset" --storage qwen3.5
done
strict T1 --experts split
strict T1 --format f32
strict T1 --format f16
judge_batch "$venv/bin/python" tools/gen/hf_fixtures.py load

section "golden/hf: the models of transformers, recorded anew"
# The same comparison as in make check, on the new recording.
tools/gen/record.sh "$work/hf" >"$work/record.log" 2>&1
report $? "recording"
other=compare
for file in golden/hf/*.safetensors; do
    name=$(basename "$file")
    if cmp -s "$file" "$work/hf/$name"; then
        same=identical
    else
        same="other bits (another CPU or library)" other=other
    fi
    echo "note    golden/hf/$name: $same"
done
# How many values have the same bits is compared only where the recording is the committed one.
[ $other = compare ] || echo "note    other bits: values are held to their bounds, the shares of equal bits are printed"
for test in tests/hf/test_*.c; do
    test=$(basename "$test" .c)
    SAMEBIT_SHARES=$other SAMEBIT_HF=$work/hf "$build/suites/hf" "$test"
    report $? "$test on the live recording"
done

section "traces: the writers and plug-ins of tools/record"
# A trace that Python writes again with other types must be complete and have the same numbers.
trace=$work/trace
rm -rf "$trace" "$trace"-*
"$build/samebit" make "$trace-ckpt" --preset T1 --recipe predictable >/dev/null &&
    "$build/samebit" run "$trace-ckpt" --tokens 1,2,3 -n 8 --draft 3 --taps 'all,state.*' --trace "$trace" >/dev/null
report $? "a trace to write again"
for type in F32 F16; do
    "$venv/bin/python" tools/record/samebit_trace.py "$trace" "$trace-$type" $type &&
        "$build/samebit" trace "$trace-$type" --checkpoint "$trace-ckpt" >"$work/trace.log" &&
        diff <("$build/samebit" trace "$trace" --checkpoint "$trace-ckpt") "$work/trace.log"
    report $? "tools/record/samebit_trace.py writes what samebit trace reads: $type"
done

# The writers in C, Python and Rust must write the same bytes. Tests the plug-ins with stand-ins for their engines.
rustc=$(command -v rustc || ls "${CARGO_HOME:-$HOME/.cargo}/bin/rustc" 2>/dev/null)
PYTHON=$venv/bin/python RUSTC=$rustc bash tests/cli/trace_writers.sh >"$work/writers.log" 2>&1
report $? "the trace writers of tools/record" "$work/writers.log"
[ -n "$rustc" ] || skip "tools/record/trace_example.rs" "no rustc"
bash tools/record/plugins.sh "$work/plugins" >"$work/plugins.log" 2>&1
report $? "the plug-ins of tools/record" "$work/plugins.log"

section "traces of transformers, recorded anew"
# Live recordings of hf.py. First golden/trace again; then every preset, compared at once. The lines that the second
# part prints are the table of docs/trace.md.
bash tools/record/hf_traces.sh "$work/traces" >"$work/traces.log" 2>&1 &&
    TRACES=$work/traces bash tests/cli/hf_traces.sh >>"$work/traces.log" 2>&1
report $? "traces of transformers, recorded anew" "$work/traces.log"
bash tools/record/hf_traces.sh "$work/traces-live" live
report $? "transformers against the reference, recorded live"
rm -rf "$work/hf-test" "$work/hf-ckpt"
{
    "$build/samebit" make "$work/hf-ckpt" --preset T1 &&
        "$venv/bin/python" tools/record/hf_test.py "$work/hf-ckpt" "$work/hf-test" &&
        "$build/samebit" diff "$work/hf-ckpt" --engine "$work/hf-test/batch" --profile hf &&
        "$build/samebit" diff "$work/hf-ckpt" --engine "$work/hf-test/padded" --profile hf
} >"$work/hf-test.log" 2>&1
report $? "hf.py around generate(), batches and padding" "$work/hf-test.log"

section "scripts that ask a server or a device, tested without one"
# The probe of running servers, tested with a server that has every fault that the probe should find.
PYTHON=$venv/bin/python BUILD=$build bash tools/record/probe_test.sh >"$work/probe.log" 2>&1
status=$?
report $status "tools/record/probe.py: $(tail -n 1 "$work/probe.log")"
[ $status -eq 0 ] || grep -A 4 -a FAILED "$work/probe.log"

# The script that compares transformers with the kernels, tested without a GPU.
PYTHON=$venv/bin/python BUILD=$build bash tools/bench/hf_test.sh >"$work/bench-hf.log" 2>&1
status=$?
report $status "tools/bench/hf.py --device cuda: $(tail -n 1 "$work/bench-hf.log")"
[ $status -eq 0 ] || grep -A 4 -a FAILED "$work/bench-hf.log"

section "the MTP head, computed in Python"
# The MTP head, which transformers lacks: mtp.py on the recorded hidden states, to the bit; and the whole recording
# again, with hidden states that may differ in the last bits on another CPU.
rm -rf "$work/mtp"
OMP_NUM_THREADS=1 "$venv/bin/python" tools/gen/mtp_fixtures.py "$work/mtp" >"$work/mtp.log" 2>&1
report $? "recording the MTP head" "$work/mtp.log"
for folder in golden/mtp/*/; do
    name=$(basename "$folder")
    "$venv/bin/python" tools/gen/mtp.py "$folder" "golden/mtp/$name.expect.safetensors"
    report $? "golden/mtp/$name.expect.safetensors is what mtp.py computes, to the bit"
    diff -r "$folder" "$work/mtp/$name"
    report $? "golden/mtp/$name is the checkpoint that mtp_fixtures.py writes"
    cmp -s "golden/mtp/$name.expect.safetensors" "$work/mtp/$name.expect.safetensors" &&
        same=identical || same="other bits (another CPU or library)"
    echo "note    golden/mtp/$name.expect.safetensors: $same"
done

section "tokenizers"
# Tokenizers: golden/tokenizer must equal the package's results, 22000 further texts agree (SEED selects others),
# and tokenizers and transformers load the output of `samebit make --tokenizer`.
tokenizer() { # OUT, further options
    RUST_BACKTRACE=0 "$venv/bin/python" tools/gen/tokenizer.py "$@" >"$work/tokenizer.log" 2>&1
}
rm -rf "$work/tokenizer" "$work/tokenizer-live"
tokenizer "$work/tokenizer" && diff -rq -x 'seed-*' golden/tokenizer "$work/tokenizer"
report $? "golden/tokenizer is what tokenizers gives"
tokenizer "$work/tokenizer-live" --random 2000 --seed "${SEED:-live}" &&
    SAMEBIT_TOKENIZER=$work/tokenizer-live "$build/suites/unit" test_tokenizer >"$work/tokenizer.log" 2>&1
report $? "the ids of tokenizers for 22000 random texts" "$work/tokenizer.log"
for preset in T1 T2 T4; do
    "$build/samebit" make "$work/made" --preset $preset --tokenizer --replace >/dev/null &&
        "$venv/bin/python" tools/gen/tokenizer_loads.py "$work/made" "$build/samebit"
    report $? "tokenizers and transformers load: make --preset $preset --tokenizer"
done

section "the quantizers: golden/quant, recorded anew"
# The quantizers: their files and dequantized values must equal the committed ones.
tools/gen/quant_record.sh "$work/quant" >"$work/quant.log" 2>&1
report $? "recording the quantizers"
tools/gen/quant_record.sh --check "$work/quant"
report $? "golden/quant is what the quantizers write"

section "the matrix of quantizers"
# The matrix of quantizers: their folders at other settings must pass `samebit check`.
counted quant-matrix tools/gen/quant_matrix.sh "$work/quant-matrix"

section "trained weights"
# Trained weights: small models, trained again, and quantized; docs/check/trained.md.
counted trained tools/gen/trained.sh "$work/trained"
for file in config.json model.safetensors; do
    cmp -s "golden/trained/dense/$file" "$work/trained/dense/$file" &&
        same=identical || same="other bits (other texts, another CPU or library)"
    echo "note    golden/trained/dense/$file: $same"
done

section "atoms: the sums of tensor cores"
# Atoms: all published results of hardware, and another model on sums that should reveal differences.
vectors=("$build/suites/unit" test_atoms_published)
rm -rf "$work/atoms" && mkdir -p "$work/atoms"
cat tools/gen/requirements.txt tools/gen/atoms/requirements.txt >"$work/atoms/requirements.txt"
tools/gen/venv.sh "$build/venv-atoms" "$work/atoms/requirements.txt" >"$work/atoms.log" 2>&1 &&
    "$build/venv-atoms/bin/python" tools/gen/atoms/simulated.py "$work/atoms/simulated.safetensors" >>"$work/atoms.log" 2>&1
report $? "MMA-Sim on the rows of ref/formats/atoms.def" "$work/atoms.log"
"${vectors[@]}" "$work/atoms/simulated.safetensors" >"$work/atoms.log" 2>&1
status=$?
report $status "the rows agree with MMA-Sim, but for what docs/atoms.md has as open"
[ $status -eq 0 ] || grep -a -E "ERROR|FAILED" "$work/atoms.log"
BUILD=$build bash tests/cli/atoms.sh --simulated "$work/atoms/simulated.safetensors"
report $? "docs/atoms.md: the table of MMA-Sim is what comes out now"
cards=${ATOMS_CARDS:-https://github.com/north-numerical-computing/MATLAB-tensor-core} # or a clone
if git clone -q "$cards" "$work/atoms/cards" >"$work/atoms.log" 2>&1; then
    python3 tools/gen/atoms/published.py "$work/atoms/cards" "$work/atoms/published.safetensors" >"$work/atoms.log" 2>&1 &&
        "${vectors[@]}" "$work/atoms/published.safetensors" >>"$work/atoms.log" 2>&1
    report $? "all vectors that were published from tensor cores" "$work/atoms.log"
    python3 tools/gen/atoms/published.py "$work/atoms/cards" "$work/atoms/some.safetensors" 1250 &&
        cmp "$work/atoms/some.safetensors" golden/atoms/published.safetensors
    report $? "golden/atoms/published.safetensors is what was published"
else
    skip "vectors of tensor cores" "$cards cannot be cloned: $(tail -n 1 "$work/atoms.log")"
fi

section "the sampler"
# The sampler: the results of its other implementation must equal the committed ones.
"$venv/bin/python" tools/gen/sampler.py "$work/sampler" >"$work/sampler.log" 2>&1
report $? "the sampler of tools/gen"
for name in sampler.json sampler.safetensors; do
    cmp -s "golden/sampler/$name" "$work/sampler/$name"
    report $? "golden/sampler/$name is what it finds"
done
"$venv/bin/python" tools/gen/sampler_agrees.py >"$work/sampler.log" 2>&1
report $? "transformers keeps the same tokens, ties apart"

section "transformers and compressed-tensors load what samebit make quantizes"
# The reverse: transformers and compressed-tensors load folders of `samebit make`, and must get the values that
# tests/quant finds (tests/quant/written.def lists the same folders).
rm -rf "$work/written"
mkdir -p "$work/written"
while read -r format preset; do
    folder=$work/written/$format
    "$build/samebit" make "$folder" --preset "$preset" --recipe plain --format "$format" >/dev/null &&
        "$build/venv-llmcompressor/bin/python" tools/gen/quant_fixtures.py load "$folder" "$folder" \
            >"$work/load.log" 2>&1
    report $? "the libraries load: make --preset $preset --format $format" "$work/load.log"
done <<'FOLDERS'
nvfp4-ct T3
nvfp4a16-ct T4
fp8-channel T3
fp8-block T3
fp8-block-ue8m0 T4
int4-ct T3
mxfp4 T4
mxfp8 T4
FOLDERS
for test in test_fixtures test_whole; do
    SAMEBIT_WRITTEN=1 SAMEBIT_QUANT=$work/written "$build/suites/quant" "$test" >"$work/$test.log" 2>&1
    status=$?
    report $status "$test on what make wrote and the libraries read"
    [ $status -eq 0 ] || grep -a -E "ERROR|FAILED" "$work/$test.log"
done
section "live models hold the values of the files"
# Live models must hold the values of the files, except the MTP head, which the classes lack; and every planted
# fault must be found. Quantized models: compressed-tensors keeps the tensors of its linear layers as stored. (NVFP4
# experts are left out: it loads them without their global scale, see docs/check.md.)
loaded=$work/loaded
rm -rf "$loaded"
mkdir -p "$loaded"
printf '%s\n' 'loaded mtp.* # the class has no MTP head' >"$loaded/waivers"
holds() { # interpreter, options of make
    local python=$1 folder=$loaded/ckpt
    shift
    "$build/samebit" make "$folder" --preset "$@" --replace >/dev/null &&
        "$python" tools/record/params.py "$folder" "$loaded/list.json" --class "$(class_of "$1")" >"$work/load.log" 2>&1 &&
        "$build/samebit" check "$folder" --headers --loaded "$loaded/list.json" --waivers "$loaded/waivers" \
            >>"$work/load.log" 2>&1
    report $? "transformers holds what the files hold: make --preset $*" "$work/load.log"
}
for preset in T1 T2 T3 T4 T5 T6 T7 T8; do
    holds "$venv/bin/python" $preset
done
holds "$venv/bin/python" T1 --experts split
holds "$build/venv-llmcompressor/bin/python" T4 --recipe plain --format nvfp4-ct
holds "$build/venv-llmcompressor/bin/python" T4 --recipe plain --format fp8-block
"$build/samebit" make "$loaded/T1" --preset T1 >/dev/null &&
    "$venv/bin/python" tools/gen/loaded_plants.py "$loaded/T1" "$loaded/loaded-T1.json" \
        "$loaded/loaded-T1-planted.json" >"$work/load.log" 2>&1 &&
    LOADED=$loaded bash tests/cli/check_loaded.sh >>"$work/load.log" 2>&1
report $? "faults planted into a live model are found" "$work/load.log"
for name in loaded-T1.json loaded-T1-planted.json; do
    cmp -s "golden/check/$name" "$loaded/$name"
    report $? "golden/check/$name is what transformers holds"
done

section "grafts"
# Grafts: transformers and compressed-tensors read the index and the lists. Cases: the dropped head, modules in
# another format, and experts that are stacks in only one layer.
graft() { # base, format of what is taken, pattern, further options of make for the base
    local base=$1 other=$2 pattern=$3
    shift 3
    rm -rf "$work/base" "$work/other"
    "$build/samebit" make "$work/base" --preset T1 --format "$base" "$@" >/dev/null &&
        "$build/samebit" make "$work/other" --preset T1 --format "$other" >/dev/null &&
        "$build/samebit" graft "$work/base" --take "$pattern" --from "$work/other" \
            -o "$batch/${#names[@]}" >/dev/null
    names+=("the libraries agree: graft $base --take '$pattern' of $other $*")
}
new_batch graft
graft nvfp4-ct bf16 'mtp.*' --no-mtp
graft nvfp4-ct bf16 'mtp.*' --no-mtp --layout vl
graft fp8-block bf16 'mtp.*'
graft fp8-channel bf16 'mtp.*' --no-mtp
graft nvfp4-ct bf16 'layers.1.mlp.*'
graft nvfp4-ct fp8-channel '*self_attn.*'
graft nvfp4-ct fp8-tensor 'mtp.*'
graft bf16 nvfp4-ct '*.mlp.experts.*'
graft fp8-block bf16 '*self_attn.*'
graft bf16 fp8-block 'layers.2.*'
judge_batch "$build/venv-llmcompressor/bin/python" tools/gen/graft_agrees.py

section "the Python package, and kernels of other projects"
# The Python package, its wheels, and kernels of other projects under the judge.
counted py tools/py/check.sh

section "kernels for AArch64, cross-compiled"
counted cross-device tests/device/cross.sh

section "real engines"
# Those that make engines has made: docs/engines.md.
counted engines tools/gen/engines/live.sh "$work"

counts ", in $((SECONDS / 60)) minutes"
