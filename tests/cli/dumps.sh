#!/usr/bin/env bash
# Files of other programs: log-probabilities of every layout are read and pass, and each planted fault is named.
. "$(dirname "$0")/lib.bash"

make_checkpoint t1 --preset T1 --recipe predictable --tokenizer
t1=$work/t1 from=golden/dumps prompt=(--tokens 3,1,4,15,9)
f=$work/f

# take NAME: a copy of a fixture at $f.json, for edit to spoil
take() { cp "$from/$1" "$f.json"; }
# edit SED...: edits the copy, and must change something
edit() {
    cp "$f.json" "$f.before"
    sed -i -E "$@" "$f.json"
    check "edit changes nothing: $*" test "$(cmp -s "$f.before" "$f.json" || echo changed)" = changed
}
# fails TEXT ARG...: exit status 1 with the text
fails() {
    local text=$1
    shift
    run 1 diff "$t1" --engine "$f.json" --runs 2 "$@"
    says "$text"
}

# --- what there is --------------------------------------------------------------------------------------
run 0 trace --kinds
for kind in kld llama_logits answers vllm_hidden; do says "$kind "; done
refused 2 trace
refused 2 trace --as nonsense "$from/kld-16.bin"
says_err "'nonsense'; there are: "
says_err ', kld, '
refused 2 diff "$t1" --engine ref --as kld --tokens 1
refused 2 diff "$t1" --engine "$from/vllm.json" --map "$from/vllm.json"
says_err 'which has no named arrays'
refused 3 diff "$t1" --engine "$from/vllm.json" --as kld
says_err '_logits_'
refused 2 trace "$from/vllm.json" --write "$work/new"
says_err --checkpoint

# --- correct files pass, also if they are written as a trace ----------------------------------------------
for name in kld-16.bin kld-24.bin llamacpp-T1.bin llamacpp-T1.txt vllm.json echo.json sglang.json; do
    run 0 diff "$t1" --engine "$from/$name" --json
    at verdict WITHIN
    at statistics.top1.rate 1.0
done
for name in chat.json llama-server.json llama-server-prob.json; do
    run 0 diff "$t1" --engine "$from/$name" "${prompt[@]}" --json
    at verdict WITHIN
    at sequences 1
    at tokens.4.kl_is_lower true
    at tokens.4.top '{"ref":192,"engine":192}'
done
run 0 diff "$t1" --engine "$from/all.jsonl" "${prompt[@]}" --json
at verdict WITHIN
at sequences 6
# uncompared tokens are named by a word of the documents, counted, and shown on the page
run 0 diff "$t1" --engine "$from/kld-16.bin" --report "$work/page.html" --junit "$work/junit.xml"
says 'tokens: 14 WITHIN, 18 SKIPPED, worst'
check "a word of no document" test -z "$(grep -w NONE "$out" "$work/page.html" "$work/junit.xml")"
same "fields that were not compared" "$(grep -c 'class="n"><title>.*: not compared' "$work/page.html")" 18
check "no legend" grep -q 'class="n"/></svg>grey: not compared' "$work/page.html"
check "no word for it" grep -q '<skipped message="SKIPPED: no speculative round was compared"/>' "$work/junit.xml"
run 0 trace "$from/kld-16.bin"
says 'llama.cpp (KLD base, 16 nats)'
says 'values of logprobs, logprob_limits'
says 'level 0; for level 1: step 0 lacks the logits of row 15 (sequence 0, position 15); 14 of 32 rows have logits'
run 0 trace "$from/kld-24.bin"
says 'ik_llama.cpp (KLD base, 24 nats)'
run 0 trace "$from/vllm.json" --checkpoint "$t1" --write "$work/trace"
says 'values of mlp.router_ids, top_ids, top_logprobs, next_ids, next_logprobs'
run 0 trace "$work/trace" --checkpoint "$t1"
run 0 diff "$t1" --engine "$from/vllm.json" --json
value tokens > "$work/direct"
run 0 diff "$t1" --engine "$work/trace" --json
value tokens > "$work/written"
check "a trace of it says otherwise" cmp "$work/direct" "$work/written"
run 0 diff "$t1" --engine "$work/trace" --versus "$from/echo.json"
says 'right: both'

# --- members of another kind than expected are not ignored ------------------------------------------------
echo '{"choices":[{"prompt_token_ids":[1,2],"token_ids":[2],"routed_experts":[[1]]}]}' > "$work/list.json"
refused 3 diff "$t1" --engine "$work/list.json"
says_err "routed_experts is not text"
echo '{"choices":[{"prompt_token_ids":[1,2],"token_ids":[2],"routed_experts":"AAAA","logprobs":{"tokens":["token_id:1","token_id:2","token_id:2"],"token_logprobs":[null,-1,-1],"top_logprobs":[null,null,null],"text_offset":[0,1,2]}}]}' > "$work/echo.json"
run 3 diff "$t1" --engine "$work/echo.json"

# --- what llama.cpp itself wrote of this checkpoint -------------------------------------------------------
llama=(--profile llamacpp --json)
given=11,18,25,32 said=283,65,203,279,123,179,230,312
run 0 diff "$t1" --engine "$from/llamacpp-kld.bin" "${llama[@]}"
at verdict WITHIN
at statistics.kl.tokens 45
run 0 diff "$t1" --engine "$from/llamacpp-completion.json" --tokens $given "${llama[@]}"
at verdict WITHIN
at statistics.kl.tokens 6 # of 8: those that end within a character have no entry
for name in completion-post mtp-completion; do
    run 0 diff "$t1" --engine "$from/llamacpp-$name.json" --tokens $given "${llama[@]}"
    at statistics.top1.rate 1.0
done
run 0 diff "$t1" --engine "$from/llamacpp-v1-completions.json" --tokens $given,$said "${llama[@]}"
at verdict WITHIN
at statistics.kl.tokens 6
refused 3 diff "$t1" --engine "$from/llamacpp-v1-completions.json" --tokens $given
says_err '6 entries for 8 tokens'
refused 3 diff "$t1" --engine "$from/llamacpp-v1-completions.json" --tokens $given,283,65,203,279,123,179,230,313
says_err 'entry 5 is of id 312, but another token was generated there'
refused 3 diff "$t1" --engine "$from/llamacpp-v1-chat.json" --tokens $given
says_err 'the prompt had 18 tokens, but 4 are given'

# --- benign: what may differ ------------------------------------------------------------------------------
take sglang.json
edit 's/, \[[-0-9.e]+, [0-9]+, null\]\](, \[\[|\]| *\})/]\1/g' # the last of each list is not there
run 0 diff "$t1" --engine "$f.json"
take sglang.json
edit 's/"output_top_logprobs": .*\], "spec/"output_top_logprobs": null, "spec/' # nothing but the tokens' own
run 0 diff "$t1" --engine "$f.json"
take vllm.json
edit 's/"rank": [0-9]+/"rank": null/'
run 0 diff "$t1" --engine "$f.json"
take sglang.json
edit 's/.*/{"custom_id": "a", "response": {"status_code": 200, "body": &}}/'
run 0 diff "$t1" --engine "$f.json"

# only the end of a prompt: the first token of a whole prompt has null in SGLang; a number there is read and judged
sglang_end() {
    take sglang.json
    edit 's/("input_token_logprobs": \[)\[null, 3, null\], /\1/; s/("input_top_logprobs": \[)null, /\1/'
}
sglang_end
run 0 diff "$t1" --engine "$f.json" --json "${prompt[@]}"
at tokens.0.verdict WITHIN
refused 3 diff "$t1" --engine "$f.json"
says_err 'the answer lacks 1 tokens of the prompt: expected --tokens'
edit 's/-10\.807089805603027/-11.807089805603027/'
run 1 diff "$t1" --engine "$f.json" "${prompt[@]}"
says 'first failure: token 0, logits (next_logprobs)'
sglang_end
edit 's/"prompt_tokens": 5/"prompt_tokens": 4/'
refused 3 diff "$t1" --engine "$f.json"
says_err 'the first token of the prompt has a log-probability; expected null'
sglang_end
edit 's/("input_token_logprobs": \[\[)-10\.[0-9]*/\1null/; s/("input_top_logprobs": \[)\[\[[^]]*\](, \[[^]]*\])*\]/\1null/'
run 0 diff "$t1" --engine "$f.json" --json "${prompt[@]}"
at tokens.0.verdict null
at tokens.1.verdict WITHIN

# --- plants: each is named --------------------------------------------------------------------------------
cp "$from/kld-plant-8.bin" "$f.json"
fails 'expected -25.4501; the error is 17.4'
# every row of chunk 0 becomes the next row: 148 bytes of head, rows of 776
{ head -c 148 "$from/kld-16.bin"; tail -c +925 "$from/kld-16.bin"; tail -c 776 "$from/kld-16.bin"; } > "$f.json"
fails 'first failure: sequence 0, token 8, logits (logprobs)'
# the codes of two ids change places
{ head -c 156 "$from/kld-16.bin"; tail -c +159 "$from/kld-16.bin" | head -c 2; tail -c +157 "$from/kld-16.bin" | head -c 2
    tail -c +161 "$from/kld-16.bin"; } > "$f.json"
fails 'first failure: sequence 0, token 8, logits (logprobs), element [0]'
# NaN in the scale of a row
{ head -c 148 "$from/kld-16.bin"; printf '\0\0\300\177'; tail -c +153 "$from/kld-16.bin"; } > "$f.json"
fails '384 of 384 log-probabilities are NaN or infinite'

take sglang.json
edit 's/, 127, null\]/, 126, null]/'
fails 'the log-probability of id 126 is'
take sglang.json
edit 's/(\[[-0-9.e]+, 159, null\]), (\[[-0-9.e]+, 174, null\])/\2, \1/'
fails 'the list is not sorted'
take sglang.json
edit 's/, 174, null\]/, 159, null]/'
fails 'id 159 occurs twice'
take sglang.json
edit 's/\[\[[-0-9.e]+, 127, null\]/[[null, 127, null]/'
fails '1 of 5 log-probabilities are NaN or infinite'
take sglang.json
edit 's/-8.319109916687012, 174/-8.318109916687012, 174/'
fails 'the log-probability of id 174 is -8.31811, expected -8.31911'
take sglang.json
edit 's/\[-8.319109916687012, 174, null\], //'
edit 's/, \[[-0-9.e]+, [0-9]+, null\]\](, \[\[|\]| *\})/]\1/2g'
fails 'is listed at place 3, but id 174 has -8.31911'
take sglang.json
edit 's/\[-0.0010602812981233, 192, null\]/[-0.0110602812981233, 192, null]/'
fails 'first failure: token 4, logits (next_logprobs)'
take vllm.json
edit 's/"logprob": -[0-9.]+/"logprob": -9999.0/'
fails 'is at most -9999, expected'
# the token that was generated is not the largest
take sglang.json
edit 's/\[-0.0010602812981233, 192, null\], \[/[-8, 77, null], [/; s/"output_ids": \[192/"output_ids": [77/'
run 1 diff "$t1" --engine "$f.json"

# --- refused: damaged files, and files that say too little ------------------------------------------------
refuse() {
    local text=$1
    shift
    refused 3 diff "$t1" --engine "$f.json" "$@"
    says_err "$text"
}
head -c 11000 "$from/kld-16.bin" > "$f.json"
refuse 'has 11000 bytes'
{ cat "$from/kld-16.bin"; printf 'xx'; } > "$f.json"
refuse 'has 11014 bytes'
cp "$from/kld-16.bin" "$f.json"
refuse 'token 0 is 3, but 4 in --tokens or --tokens-file' --tokens 4,1
take vllm.json
tr -d '\n' < "$f.json" | sed -E 's/("prompt_token_ids": \[ *3, *1, *)4/\15/' > "$f.before"
cp "$f.before" "$f.json"
refuse 'prompt_logprobs[2]: has no entry for 5, the token at this place: does the answer belong to another prompt?'
for word in NaN -Infinity Infinity; do
    take sglang.json
    edit "s/-8.319109916687012/$word/"
    refuse 'not strict JSON'
done
take chat.json
refused 2 diff "$t1" --engine "$f.json"
says_err '--tokens'
edit '0,/"token": "[^"]*"/s//"token": "no such token"/; 0,/"bytes": \[/s//"was": [/'
refuse 'no token has the text' "${prompt[@]}"
echo '{"choices": 1}' > "$f.json"
refuse 'is not an answer of a server'
take vllm.json
edit 's/"routed_experts": "/&!/'
refuse 'routed_experts is not base64'
take vllm.json
edit 's/token_id:111"/token_id:384"/'
refuse '384 is not a token id'
# hidden states of vLLM: the map names the layers, and a file that is still being written is not read
cp "$from/vllm-hidden.safetensors" "$work/h.safetensors"
echo '{"hidden_states.0": "layers.1.output", "hidden_states.1": "layers.5.output"}' > "$work/map"
run 0 trace "$work/h.safetensors" --map "$work/map" --checkpoint "$t1"
says 'values of output'
says '5 prompt'
refused 3 trace "$work/h.safetensors"
says_err 'has the name of a tap'
refused 3 trace "$work/h.safetensors" --map "$work/map" --tokens 3,1,5
# the hidden states are those of the model; with the weights of another seed, the first of them names its layer
run 0 make "$work/other" --preset T1 --seed 43
for way in '' --free; do
    # shellcheck disable=SC2086
    run 0 diff "$t1" --engine "$work/h.safetensors" --map "$work/map" $way
    says 'tokens: 5 WITHIN'
    # shellcheck disable=SC2086
    run 1 diff "$work/other" --engine "$work/h.safetensors" --map "$work/map" $way
    says 'first failure: token 0, layer 1, hidden (layers.1.output)'
    says 'tokens: 5 FAIL'
done
# hidden states alone are no values of ops
run 4 diff "$t1" --engine "$work/h.safetensors" --map "$work/map" --forced
says_err '--forced needs a level 4 trace'
touch "$work/h.safetensors.lock"
run 0 trace "$work/h.safetensors" --map "$work/map"
exec 9> "$work/h.safetensors.lock"
flock -x 9
refused 3 trace "$work/h.safetensors" --map "$work/map"
says_err 'is still being written'
exec 9>&-

mkdir "$work/one"
cp "$from/llamacpp-T1.bin" "$work/one/"
refused 2 diff "$t1" --engine "$work/one/llamacpp-T1.bin"
says_err 'there is no llamacpp-T1-tokens.bin'
finish
