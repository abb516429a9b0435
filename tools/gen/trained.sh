#!/usr/bin/env bash
# Small trained models, quantized by three quantizers and by samebit itself, and checked by `samebit`.
#
#   tools/gen/trained.sh OUT [NAME...]     trains (train_small.py), quantizes, and judges; keeps files in OUT
#
# The folders are those of quant_matrix.sh (NAME...) with trained weights as sources, and those of `samebit make
# --weights` in every format. Then the MTP heads: the trained one must not be HEAD-WEAK, foreign ones must be.
# docs/check/trained.md has a table of the results. Ends with "N passed, N failed, N skipped".
set -uo pipefail
if [ $# -lt 1 ]; then echo "usage: tools/gen/trained.sh OUT [NAME...]" >&2; exit 2; fi
out=$1
shift
build=${BUILD:-build}
samebit=$build/samebit
passed=0 failed=0 skipped=0
export OMP_NUM_THREADS=1 PYTHONHASHSEED=0
mkdir -p "$out/in" "$out/made"
if [ $# -eq 0 ]; then # each scheme once or twice, each producer, both families
    set -- ct-nvfp4-{moe,moe-kept,tied,moe-head,smooth-tied} ct-nvfp4a16-mse-tied ct-fp8-block-{moe,gptq-tied} \
        ct-fp8-dynamic-moe ct-fp8-mse-tied ct-w4a16-{moe,gptq-order-tied} ct-w8a8-{moe,smooth-tied} ct-mxfp4-moe \
        ar-w4a16-{iters-moe,iters-tied} ar-gptq-g32-iters-moe ar-gptq-asym-iters-tied ar-awq-g64-tied \
        ar-int8-g64-iters-moe ar-nvfp4-iters-tied ar-mxfp4-iters-tied mo-nvfp4-{moe,moe-head,tied} \
        mo-fp8-{moe,channel-tied,block-tied} mo-int4-tied mo-mxfp4-moe mo-w8a16-tied
fi

report() { # status, what
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok      $2"
    else
        failed=$((failed + 1))
        echo "FAILED  $2"
    fi
}

for name in dense moe dense-43; do
    [ -e "$out/$name/config.json" ] ||
        "$build/venv-hf/bin/python" tools/gen/train_small.py "$samebit" "$out" "$name" >>"$out/train.log" 2>&1
    report $? "$name learned: $(tail -n 1 "$out/train.log" 2>/dev/null | sed 's/.*steps; //')"
done
for pair in moe:moe tied:dense; do # the kinds of quant/matrix.py
    for bare in "" -bare; do
        rm -rf "$out/in/${pair%:*}$bare"
        cp -r "$out/${pair#*:}$bare" "$out/in/${pair%:*}$bare" || exit 1
        rm -f "$out/in/${pair%:*}$bare"/tokenizer* # the quantizers get no tokenizer
    done
done

# Checks alone and with the original, in every format of samebit.
formats=$("$samebit" make --help | sed -n '/^formats:/,/^$/s/^  \([a-z0-9-]*\): .*/\1/p')
for name in dense moe; do
    for format in $formats; do
        folder=$out/made/$name-$format
        "$samebit" make "$folder" --weights "$out/$name" --format "$format" --tokenizer --replace >/dev/null &&
            "$samebit" check "$folder" >"$folder.alone" 2>&1 &&
            "$samebit" check "$folder" --against "$out/$name" >"$folder.against" 2>&1
        status=$?
        warned=$(cat "$folder.alone" "$folder.against" 2>/dev/null | grep -a -c '^ *WARN ')
        report $status "$name in $format: sound, $warned warnings"
    done
done

# MTP heads along a text of the training: the model's own, one trained elsewhere (dense-43), and a random one.
text=/usr/share/common-licenses/GPL-3
head -c 3000 "$text" | tail -c 700 >"$out/text"
"$samebit" tokenize "$out/dense" --file "$out/text" | sed -n 's/^tokens //p' >"$out/ids"
"$samebit" make "$out/drawn" --preset T3 --recipe plain --replace >/dev/null
head_is() { # verdict, what, check's words
    local verdict=$1 what=$2
    shift 2
    "$samebit" check "$@" --run 96 --tokens-file "$out/ids" >"$out/head.log" 2>&1
    grep -a -q "^HEAD $verdict" "$out/head.log" && grep -a -q '^  head own' "$out/head.log"
    report $? "$what: $verdict, $(sed -n 's/^  head own *trunk own *//p;s/^  the best/the best/p' "$out/head.log" | tr '\n' ';')"
}
for name in dense moe; do
    head_is UNKNOWN "the head of $name" "$out/$name" # not weak; only an original shows how good it should be
    head_is HEAD-OK "the head of $name, with itself as the original" "$out/$name" --against "$out/$name"
done
head_is HEAD-WEAK "dense with the head of dense-43" "$out/dense" --overlay "mtp.*=$out/dense-43"
head_is HEAD-WEAK "moe with a drawn head" "$out/moe" --overlay "mtp.*=$out/drawn"

bash tools/gen/quant_matrix.sh "$out" "$@" >"$out/matrix.log" 2>&1
grep -a -E '^(ok|FAILED|SKIPPED)' "$out/matrix.log"
read -r p f s <<<"$(tail -n 1 "$out/matrix.log" | tr -dc '0-9 ')"
passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0})) skipped=$((skipped + ${s:-0}))

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
