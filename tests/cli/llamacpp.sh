#!/usr/bin/env bash
# Traces of llama.cpp (golden/dumps/llamacpp-*, tools/record/llamacpp.sh) against the reference under its profile,
# without a changed knob: within the bounds, rounds and drafts of its MTP head included. TRACES names a folder with
# more traces, recorded anew (`make crosscheck`).
. "$(dirname "$0")/lib.bash"
traces=${TRACES:-golden/dumps}

within() { # checkpoint, trace, further options
    run 0 diff "$work/$1" --engine "$traces/$2" --profile llamacpp "${@:3}"
    check "$2 is within, or next to a tie" grep -qE '^(WITHIN|NEAR_TIE)' "$out"
}
run 0 make "$work/T4" --preset T4 --recipe mistakes --seed 42
run 0 make "$work/P1" --preset T1 --recipe predictable-1 --seed 42 # the checkpoint of the recordings
within T4 llamacpp-T4
says "delta_rule "
says "attention "
# every op is judged, and with one wrong knob an op fails
run 0 diff "$work/T4" --engine "$traces/llamacpp-T4" --profile llamacpp --forced -q
run 1 diff "$work/T4" --engine "$traces/llamacpp-T4" --profile llamacpp --set q_scale=multiply --forced
says "first failure: token 0, layer 0, l2norm (layers.0.linear_attn.q)"
run 1 diff "$work/T4" --engine "$traces/llamacpp-T4" --profile llamacpp --set linear_input=act --forced
says "first failure: token 0, layer 0, linear"
run 1 diff "$work/T4" --engine "$traces/llamacpp-T4" --profile llamacpp --set scores=f32 --forced
says "attention (layers.3.self_attn.core_out)"

# the draws of llama.cpp's sampler: each is the one that its declared generator gives, and no other declaration fits
run 0 diff "$work/T4" --engine "$traces/llamacpp-T4-sampled" --profile llamacpp --json
at sampler.draws 39
at sampler.replayed 39
at sampler.outside 0
declared() { # SED, words
    rm -rf "$work/declared"
    cp -r "$traces/llamacpp-T4-sampled" "$work/declared"
    sed -i "$1" "$work/declared/trace.json"
    run 1 diff "$work/T4" --engine "$work/declared" --profile llamacpp
    says_err "$2"
}
declared 's/"seed": 42/"seed": 43/' 'the generator mt19937 with seed 43 does not give'
declared 's/"top_k": 20/"top_k": 6/' 'the generator mt19937 with seed 42 does not give'
declared 's/"repetition_penalty": 3/"repetition_penalty": 1/' 'the generator mt19937 with seed 42 does not give'
declared 's/"temperature": 0.5/"temperature": 0.7/' 'the generator mt19937 with seed 42 does not give'

# the MTP head, with drafts made by llama.cpp's own code; the trace has only logits of the trunk
run 0 diff "$work/P1" --engine "$traces/llamacpp-T1-mtp" --profile llamacpp
says "WITHIN: some values differ"
rows=22 # of golden/dumps; a recording of tools/record/llamacpp.sh is longer
[ "$traces" = golden/dumps ] || rows=50
says "tokens: $rows WITHIN"
says "acceptance: reference "
check "the reference accepts what llama.cpp accepts" awk '/^acceptance:/ {
    found = $3 == $8 && $3 + 0 > 0 } END { exit !found }' "$out"
# logits, log-probabilities or answers alone (T-46): the right ones pass, those of another model do not
run 0 diff "$work/T4" --engine "$traces/llamacpp-T4" --profile llamacpp --free
says "WITHIN: some values differ"
run 0 make "$work/Q1" --preset T1 --recipe predictable --seed 43
for given in "llamacpp-kld.bin" "llamacpp-completion.json --tokens 11,18,25,32" \
    "llamacpp-completion-post.json --tokens 11,18,25,32" "llamacpp-mtp-completion.json --tokens 11,18,25,32"; do
    read -ra words <<<"$given"
    run 0 diff "$work/P1" --engine "golden/dumps/${words[0]}" "${words[@]:1}" --profile llamacpp
    says "WITHIN: some values differ"
    run 1 diff "$work/Q1" --engine "golden/dumps/${words[0]}" "${words[@]:1}" --profile llamacpp
done

if [ -d "$traces/T1-mtp" ]; then
    within P1 T1-mtp
    # the other interpretation of each knob of the head fails
    for knob in mtp_first=pair mtp_hidden=residual mtp_position=hidden mtp_recycled=residual; do
        run 1 diff "$work/P1" --engine "$traces/T1-mtp" --profile llamacpp --forced --set $knob
        says ", mtp.0, "
    done
    for preset in T1 T4 T5; do
        run 0 make "$work/$preset" --preset $preset --recipe mistakes --seed 42 --replace
        within $preset $preset-bf16
        within $preset $preset-f32-cache --set kv_cache=act --set scores=f32
    done
    within T4 T4-f32 --set linear_input=act # a file in binary32: inputs are not rounded either
    # flash attention accumulates in binary16, which no profile does: only attention is outside
    run 1 diff "$work/T4" --engine "$traces/T4-flash" --profile llamacpp --forced
    check "attention fails" grep -q '^attention .* FAIL$' "$out"
    check "and nothing else does" test "$(grep -c '^[a-z_]\{1,\} .* FAIL$' "$out")" = 1
fi
finish
