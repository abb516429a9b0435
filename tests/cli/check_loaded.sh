#!/usr/bin/env bash
# check --loaded: the lists that tools/record/params.py wrote for real transformers models, and the verdicts on them.
# golden/check/loaded-T1.json is the list of a sound model, whose class has no MTP head. loaded-T1-planted.json is the
# same list with changes of tools/gen/loaded_plants.py.
. "$(dirname "$0")/lib.bash"

make_checkpoint a --preset T1
lists=${LOADED:-golden/check} # crosscheck.sh gives newly recorded lists
a=$work/a sound=$lists/loaded-T1.json planted=$lists/loaded-T1-planted.json

# row NAME VERDICT MESSAGE: the document on stdout has this verdict and message for the parameter NAME
rows() { "$helpers/json_at" loaded.differences < "$out" | sed 's/},{/}\n{/g'; }
row() { # NAME VERDICT MESSAGE
    local line
    line=$(rows | grep -F "\"name\":\"$1\"")
    check "$1 is not $2: $line" grep -qF "\"verdict\":\"$2\"" <<< "$line"
    check "$1 does not say '$3': $line" grep -qF -- "$3" <<< "$line"
}
counts() { # VERDICT NUMBER
    check "not $2 times $1" test "$(rows | grep -cF "\"verdict\":\"$1\"")" = "$2"
}

# the incident: the head is in the files, but not in the engine's memory
run 1 check "$a" --loaded $sound
says "LOADED FAIL: $sound of Qwen3_5MoeForCausalLM, transformers 5.17.0, torch 2.15.0, 143 parameters, 141 OK, 2 explained"
says '  DROPPED (19): the files have it, but the engine does not hold it'
says '    mtp.fc: 1 matrix, plain, of the MTP head'
says 'belong to the MTP head: this engine does not draft with it'
says_err 'the engine does not hold the values of the files'
run 1 check "$a" --loaded $sound --json --junit "$work/report.xml"
at verdict FAIL
at counts.error 0
at loaded.verdict FAIL
at loaded.parameters 143
at loaded.ok 141
at loaded.explained 2
counts DROPPED 19
counts EXTRA 2
check "something else" test "$(rows | grep -c .)" = 21
check "no failure in the XML" grep -q 'DROPPED mtp.fc: 1 matrix' "$work/report.xml"
cp "$out" "$work/document"
for threads in 1 3; do
    run 1 check "$a" --loaded $sound --json --threads $threads
    check "threads change the document" cmp "$out" "$work/document"
done
# headers are enough to open the files: the comparison reads what it needs
run 1 check "$a" --loaded $sound --headers --json
at loaded.ok 141

# the missing head is waived; in a checkpoint without a head nothing is missing
echo 'loaded mtp.* # this class has no head' > "$work/waivers"
run 0 check "$a" --loaded $sound --waivers "$work/waivers" --json
at verdict PASS
at loaded.verdict PASS
at loaded.waived 19
at waivers.0.covered 19
run 0 check "$a" --loaded $sound --waivers "$work/waivers"
says 'LOADED PASS'
make_checkpoint headless --preset T1 --no-mtp
run 0 check "$work/headless" --loaded $sound --json
at loaded.verdict PASS
at loaded.ok 141

# experts one by one, and another prefix, are the same model
make_checkpoint split --preset T1 --experts split --layout vl
run 1 check "$work/split" --loaded $sound --json
at loaded.ok 141

# every kind of planted fault
run 1 check "$a" --loaded $planted --json
l=model.layers
row $l.0.linear_attn.dt_bias DROPPED '1 x 4, BF16'
row stray EXTRA 'a parameter'
row $l.1.mlp.gate.weight SHAPE '[15,128], the files have 16 x 128, plain'
row $l.0.linear_attn.out_proj.weight RESCALED 'every value is 0.5 times the value in the files'
row $l.1.linear_attn.out_proj.weight RESCALED 'the values are about 0.3'
row $l.0.input_layernorm.weight SWAPPED "holds the values of $l.1.input_layernorm.weight"
row $l.1.input_layernorm.weight SWAPPED "holds the values of $l.0.input_layernorm.weight"
row $l.0.mlp.shared_expert.up_proj.weight 'OTHER VALUES' 'all zero'
row $l.1.post_attention_layernorm.weight 'OTHER VALUES' 'every value is 1 more than in the files'
row $l.2.mlp.experts.down_proj 'OTHER VALUES' "slice 3 holds slice 5 of the files, slice 5 holds slice 3 of the files"
at loaded.ok 132
check "something else" test "$(rows | grep -c .)" = $((21 + 10))
run 1 check "$a" --loaded $planted
for verdict in DROPPED EXTRA SHAPE RESCALED SWAPPED 'OTHER VALUES'; do
    says "  $verdict ("
done

# the list of BF16 values is compared with F32 files: all are rounded; with files of another seed: all are wrong
make_checkpoint f32 --preset T1 --format f32
run 1 check "$work/f32" --loaded $sound --json
counts DTYPE 141
row lm_head.weight DTYPE 'F32 in the files, rounded to BF16'
make_checkpoint other --preset T1 --seed 43
run 1 check "$work/other" --loaded $sound --json
at loaded.ok 0
counts 'OTHER VALUES' 141

# fused parameters: declared by their parts, and recognized by their names
half=$(sed -n 's/.*"name": "model.layers.3.self_attn.k_proj.weight".*"digest": "\([0-9a-f]*\)".*/\1/p' $sound)
list() { # ENTRY: a list of this entry alone
    printf '{"format": "samebit-loaded 1", "parameters": [%s]}\n' "$1" > "$work/list.json"
}
entry() { printf '{"name": "%s", "shape": [128, 128], "dtype": "BF16", "digest": "%s"%s}' "$1" "$half" "${2-}"; }
k='{"module": "model.layers.3.self_attn.k_proj", "rows"'
list "$(entry blob ", \"parts\": [$k: [0, 64]}, $k: [64, 128]}]")"
run 1 check "$a" --loaded "$work/list.json" --json
at loaded.ok 1
list "$(entry blob ", \"parts\": [$k: [64, 128]}, $k: [0, 64]}]")"
run 1 check "$a" --loaded "$work/list.json" --json
row blob 'OTHER VALUES' 'digest'
list "$(entry blob ', "parts": [{"module": "nothing"}]')"
run 1 check "$a" --loaded "$work/list.json" --json
row blob EXTRA 'its part nothing'
list "$(entry model.layers.3.self_attn.qkv_proj.weight)"
run 1 check "$a" --loaded "$work/list.json" --json
row model.layers.3.self_attn.qkv_proj.weight SHAPE 'the files have 3 matrices'

# invalid lists
refused 3 check "$a" --loaded "$work/no-such-file"
refused 3 check "$a" --loaded "$a/config.json"
list ''
run 1 check "$a" --loaded "$work/list.json" --json
at loaded.parameters 0
for bad in '{}' '{"name": "x"}' "$(entry a), $(entry a)" "$(entry a ', "rows": 3')" "$(entry a ', "kind": "state"')" \
    "$(entry a ', "parts": []')" "$(entry a ', "slices": []')" "$(entry a | sed 's/BF16/bfloat16/')" \
    "$(entry a | sed 's/"digest": "/&X/')"; do
    list "$bad"
    refused 3 check "$a" --loaded "$work/list.json"
    says_err "$work/list.json: "
done
sed 's/samebit-loaded 1/samebit-loaded 2/' $sound > "$work/list.json"
refused 3 check "$a" --loaded "$work/list.json"
says_err 'expected samebit-loaded 1'
finish
