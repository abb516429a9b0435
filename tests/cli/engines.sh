#!/usr/bin/env bash
# The answers and counters of engines (golden/engines, recorded by tools/gen/engines) against the reference, on the same
# folders made anew: greedy tokens are equal, counters of speculation are equal to the unit, log-probabilities are
# within the bounds of the engine's profile. CHECK_ALL=1: every case; otherwise those of FEW. Faults planted in a
# recording are found.
. "$(dirname "$0")/lib.bash"
recordings=golden/engines
FEW=" vllm/T2-draft2 vllm/T4-draft0 vllm/T4-draft3 vllm/T4-llama-10-none-draft2 vllm/T8-ngram-draft4 vllm_server/T4-draft2 mlx/T4-f32 mlx/T7-f32 transformers/T4-bf16 llamacpp/T4-draft2 llamacpp/T5-draft0 "

field() { "$helpers/json_at" "$1" < "$recording"; } # of the case in $recording
lists() { tr -d ' ' | sed -e 's/^\[\[//' -e 's/\]\]$//' -e 's/\],\[/\n/g'; }

# Makes the folder with the recorded options of `samebit make`, once.
made() {
    local options
    options=$(field make)
    folder=$work/$(tr -dc 'A-Za-z0-9.' <<< "$options")
    [ -d "$folder" ] || read -ra words <<< "$options"
    [ -d "$folder" ] || run 0 make "$folder" "${words[@]}"
}

# the number of rounds, of drafted tokens, and of accepted tokens by depth, from the output of `samebit run`
counted() {
    awk '/^accepted / { drafted += $4; rounds += $(NF - 1) }
         /^depth /    { depth = $2 + 0; accepted[depth] += $3; if (depth > deepest) deepest = depth }
         END { printf "%d %d [", rounds, drafted
               for (d = 1; d <= deepest; d++) printf "%s%d", (d > 1 ? "," : ""), accepted[d]
               print "]" }' "$out"
}

# The output of the engine and of the reference: one line of tokens for each sequence, then the counters.
engine_says() {
    field 'answers.*.choices.0.token_ids' | tr -d '[]'
    [ "$(field draft)" = 0 ] || echo "$(field counters.rounds) $(field counters.drafted) $(field counters.accepted)"
}
reference_says() {
    field prompts | lists > "$work/prompts"
    read -ra sampled <<< "$(field sampling 2> "$work/none")"
    local drafter
    drafter=$(field drafter 2> "$work/none")
    [ -z "$drafter" ] || sampled+=(--drafter "$drafter")
    run 0 run "$folder" --tokens-file "$work/prompts" -n "$(field generate)" --draft "$(field draft)" \
        --profile "$(field reference 2> "$work/none" || echo exact)" "${sampled[@]}"
    sed -n 's/^tokens //p' "$out"
    [ "$(field draft)" = 0 ] || counted
}
agrees() { diff <(engine_says) "$work/reference" > "$work/differences"; }

# Compares tokens and counters with the recorded verdict. If it is not EQUAL, they must differ; the verdict about the
# values then decides whether that is a fault.
judge() { # NAME
    made
    reference_says > "$work/reference"
    case $(field verdicts.tokens) in
        EQUAL) check "$1: tokens or counters are not the reference's" agrees ;;
        *) check "$1: the recording says that tokens part, and they do not" eval '! agrees' ;;
    esac
    if field verdicts.metrics > "$work/verdict" 2> "$work/none"; then
        field metrics > "$work/metrics"
        observed 0
        at observed.verdict "$(cat "$work/verdict")"
    fi
    if field verdicts.values.verdict > "$work/verdict" 2> "$work/none"; then values "$1"; fi
}
# Compares the metrics of a server, $work/metrics, with the rounds of its answers.
observed() { # STATUS
    local texts=$work/texts
    paste -d, "$work/prompts" <(engine_says | head -n "$(field answers.length)") > "$texts"
    awk -F, '{ print NF }' "$work/prompts" > "$work/given"
    run "$1" accept "$folder" --tokens-file "$texts" --given "@$work/given" -K "$(field draft)" \
        --observed "$work/metrics" --json
}
values() { # NAME
    [ "$(field draft)" = 0 ] || return 0
    field answers > "$work/answers.json"
    [ ${#sampled[@]} = 0 ] || sampled=(--sampled)
    "$SAMEBIT" diff "$folder" --engine "$work/answers.json" --profile "$(field profile)" --json "${sampled[@]}" > "$out" 2> "$err"
    at verdict "$(cat "$work/verdict")"
}

for file in "$recordings"/*.json; do
    engine=$(basename "$file" .json)
    total=$("$helpers/json_at" cases.length < "$file")
    for ((n = 0; n < total; n++)); do
        recording=$work/recording.json
        "$helpers/json_at" "cases.$n" < "$file" > "$recording"
        name=$engine/$(field name)
        if field refused > /dev/null 2>&1; then continue; fi
        [ "${CHECK_ALL:-0}" = 1 ] || [[ $FEW == *" $name "* ]] || continue
        judge "$name"
        [ "$name" != vllm/T2-draft2 ] || cp "$recording" "$work/counters.case"
        [ "$name" != vllm_server/T4-draft2 ] || cp "$recording" "$work/metrics.case"
        [ "$name" != vllm/T4-draft0 ] || cp "$recording" "$work/values.case"
    done
done

# planted: another token, another counter, another log-probability; the unchanged recording passes
planted() { # CASE PATH VALUE
    recording=$work/planted.json
    "$helpers/json_at" "$2" "$3" < "$1" > "$recording"
}
recording=$work/counters.case
made
reference_says > "$work/reference"
check "the recording itself agrees" agrees
planted "$work/counters.case" answers.1.choices.0.token_ids.7 3
check "another token is not seen" eval '! agrees'
planted "$work/counters.case" counters.rounds 1
check "another number of rounds is not seen" eval '! agrees'
planted "$work/counters.case" counters.accepted.1 0
check "another number of accepted drafts is not seen" eval '! agrees'
recording=$work/metrics.case
made
reference_says > "$work/reference"
check "the answers of the server agree" agrees
field metrics > "$work/metrics"
observed 0
for counter in drafts draft_tokens accepted_tokens 'accepted_tokens_per_pos.*position="1"'; do
    field metrics | awk -v name="^vllm:spec_decode_num_$counter" '
        $1 ~ name && !seen++ { $NF += 1 }
        { print }' > "$work/metrics"
    check "$counter was not changed" eval '! cmp -s "$work/metrics" <(field metrics)'
    "$SAMEBIT" accept "$folder" --tokens-file "$work/texts" --given "@$work/given" -K "$(field draft)" \
        --observed "$work/metrics" > "$out" 2> "$err"
    check "$counter off by one is not seen" test $? != 0
done
planted "$work/metrics.case" answers.40.choices.0.token_ids.7 3
check "another token in an answer of the server is not seen" eval '! agrees'
recording=$work/values.case
made
planted "$work/values.case" answers.0.choices.0.logprobs.token_logprobs.3 -2.5
field answers > "$work/answers.json"
run 1 diff "$folder" --engine "$work/answers.json" --profile vllm

# inside vLLM: without a mistake no op fails and the free comparison passes; with the sign of a gate changed in the
# engine, that op fails and no other
inside=$recordings/inside
options_of() { read -ra options <<< "$("$helpers/json_at" options < "$inside/$1.json" | tr -d '[]"' | tr ',' ' ')"; }
failing() { "$SAMEBIT" diff "$folder" --engine "$1" "${options[@]}" 2> "$err" | sed -n 's/^\([a-z][a-z_0-9]*\) .* FAIL.*/\1/p'; }
options_of vllm
run 0 diff "$folder" --engine "$inside/vllm-T4" "${options[@]}" --free
says 'WITHIN: '
says 'round 0 WITHIN: drafts 354 | 354, accepted 1 | 1'
run 0 diff "$folder" --engine "$inside/vllm-T4" "${options[@]}"
check "the delta rule was not judged in a segment" grep -q '^delta_rule_chunk .* WITHIN, .* inside segments$' "$out"
check "the convolution was not judged" grep -q '^conv .* IDENTICAL$' "$out"
check "an op of vLLM fails" [ -z "$(failing "$inside/vllm-T4")" ]
run 1 diff "$folder" --engine "$inside/vllm-T4-gate-sign" "${options[@]}"
says 'first failure: token 0, layer 3, attn_gate (layers.3.self_attn.gated)'
check "another op fails" [ "$(failing "$inside/vllm-T4-gate-sign")" = attn_gate ]

# inside mlx-lm: without a mistake every op of the trunk and the states are within the bounds; with the gate of attention
# left out in the engine, that op fails and no other
folder=$work/mlx
run 0 make "$folder" --preset T4 --layout vl --recipe predictable --format f32
options_of mlx
run 0 diff "$folder" --engine "$inside/mlx-T4" "${options[@]}"
says 'WITHIN: '
check "the delta rule was not judged" grep -q '^delta_rule .* WITHIN, 6 values inside segments$' "$out"
check "gates were not judged behind" grep -q '^gates .* WITHIN, .* inside segments$' "$out"
check "an op of mlx-lm fails" [ -z "$(failing "$inside/mlx-T4")" ]
run 1 diff "$folder" --engine "$inside/mlx-T4-gate-left-out" "${options[@]}"
says 'first failure: token 0, layer 3, attn_gate (layers.3.self_attn.gated)'
check "another op fails" [ "$(failing "$inside/mlx-T4-gate-left-out")" = attn_gate ]

# the results of all planted mistakes: the unchanged engine passes, and each mistake is found at its op
for ((model = 0; model < $("$helpers/json_at" models.length < "$inside/mlx.json"); model++)); do
    of=models.$model.faults
    mlx() { "$helpers/json_at" "$of.$1" < "$inside/mlx.json"; }
    check "model $model of mlx-lm as it is: $(mlx 0.verdict)" [ "$(mlx 0.verdict)" != FAIL ]
    while read -r found fault; do
        check "mlx-lm: $fault is not found" [ "$found" = true ]
    done < <(paste -d' ' <(mlx '*.found') <(mlx '*.fault') | tail -n +2)
done

# folders that mlx-lm quantized are refused by name, in each of its four modes; the same folder without them is read
for mode in affine mxfp4 mxfp8 nvfp4; do
    cp "$folder/config.json" "$work/config.json"
    cp "$recordings/mlx/$mode.json" "$folder/config.json"
    for command in "info $folder" "check $folder" "run $folder --tokens 1" "check $work/plain --against $folder"; do
        read -ra words <<< "$command"
        [ -d "$work/plain" ] || run 0 make "$work/plain" --preset T4 --layout vl --recipe predictable
        run 3 "${words[@]}"
        says_err "config.json: quantization is that of mlx-lm (mode $mode, "
        check "$command calls a folder of mlx-lm cut" eval '! grep -q cut "$out" "$err"'
    done
    mv "$work/config.json" "$folder/config.json"
done
run 0 info "$folder"

# inside llama.cpp, small parts of traces: without a mistake no op fails; with one, its op fails first and no other. The
# list of the mistakes names the op, and the recorded result has every mistake, found.
list=tools/record/llamacpp/faults.def
read -ra options <<< "$("$helpers/json_at" options < "$inside/llamacpp.json" | tr -d '[]"' | tr ',' ' ')"
run 0 make "$work/next" --preset T5 --recipe predictable --seed 42
folder=$work/next
run 4 diff "$folder" --engine "$inside/llamacpp-T5-none" "${options[@]}"
check "an op of llama.cpp fails" [ -z "$(failing "$inside/llamacpp-T5-none")" ]
for op in linear rmsnorm conv rope attention router; do
    check "no value of $op was judged" grep -qE "^$op +[1-9]" "$out"
done
for trace in "$inside"/llamacpp-T5-*; do
    fault=${trace##*llamacpp-T5-}
    [ "$fault" != none ] || continue
    op=$(sed -n "s/^LLAMA_FAULT($fault, \([a-z_0-9]*\),.*/\1/p" $list)
    run 1 diff "$folder" --engine "$trace" "${options[@]}"
    check "$fault: $op does not fail first" grep -qE "^first failure: token [0-9]+, layer [0-9]+, $op " "$out"
    check "$fault: another op than $op fails" [ "$(failing "$trace")" = "$op" ]
done
sed -n 's/^LLAMA_FAULT(\([a-z_0-9]*\),.*/\1/p' $list | while read -r fault; do
    grep -q "\"fault\":\"$fault\"" "$inside/llamacpp.json" || echo "$fault"
done > "$work/unrecorded"
check "not recorded: $(tr '\n' ' ' < "$work/unrecorded")" [ ! -s "$work/unrecorded" ]
grep '"fault":' "$inside/llamacpp.json" | grep -v '"fault":"none"' | grep -v '"found":true' > "$work/missed"
check "a mistake in llama.cpp was not found" [ ! -s "$work/missed" ]

# parameters that vLLM's loader left (tools/record/vllm_loaded.py), FP8 per channel: without a mistake, and with
# mistakes planted in the loader
run 0 make "$work/fp8" --preset T4 --layout vl --recipe predictable --format fp8-channel
echo 'loaded model.visual.* # no vision tower was asked for' > "$work/waivers"
holds() { run "$1" check "$work/fp8" --loaded "$recordings/loaded/$2.json" --waivers "$work/waivers"; }
holds 0 none
says '89 parameters, 77 OK, 12 explained, 21 waived'
says 'LOADED PASS'
holds 1 shard_skipped
says 'OTHER VALUES (15)'
says 'layers.0.mlp.up_proj.weight: the bytes are not those of'
holds 1 scales_dropped
says 'OTHER VALUES (8)'
says 'layers.0.mlp.gate_proj.weight_scale: '
holds 1 mtp_as_made
says 'OTHER VALUES (12)'
says 'mtp.fc.weight: '
finish
