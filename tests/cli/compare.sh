#!/usr/bin/env bash
# compare: a quantized form against its original, a planted bad layer, limits, the card, wrong use.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/page.bash"

make_checkpoint a --preset T5 --recipe predictable
make_checkpoint fp8 --preset T5 --recipe predictable --format fp8-block
make_checkpoint fp4 --preset T5 --recipe predictable --format nvfp4-ct
make_checkpoint other --preset T5 --recipe mistakes
make_checkpoint t4 --preset T4
a=$work/a
printf '5,6,7,8,9,10,11,12\n3,4,5,6,7\n' > "$work/text"

run 0 compare "$a" "$work/fp4" --tokens-file "$work/text" --mixed 6
says "2 texts, 13 tokens, profile exact"
says "layers of B put into A, largest contribution first (6 tokens):"
says "MEASURED: no limit was given"
check "something on stderr" test ! -s "$err"
cp "$out" "$work/table"
SAMEBIT_ISA=scalar run 0 compare "$a" "$work/fp4" --tokens-file "$work/text" --mixed 6 --threads 3
check "threads or kernels change the table" cmp "$out" "$work/table"

run 0 compare "$a" "$work/fp4" --tokens-file "$work/text" --json
at spec 2
at command compare
at tokens 13
at mixed_tokens 13
at layers.length 6
at layers.0.name embed
at layers.5.name head
at top1.of 13
at acceptance.a.of 11
at verdict MEASURED
fp4=$(value kl.mean)
run 0 compare "$a" "$work/fp8" --tokens-file "$work/text" --json
fp8=$(value kl.mean)
check "fp8 ($fp8) is not nearer than fp4 ($fp4)" \
    awk -v a="$fp8" -v b="$fp4" 'BEGIN { exit !(a > 0 && a < b) }'

# a bad layer: one layer of another model, all others as quantized
run 0 graft "$work/fp8" --take "model.layers.1.mlp.*" --from "$work/other" -o "$work/bad"
run 0 compare "$a" "$work/bad" --tokens-file "$work/text" --json
at ranking.0 layers.1
check "the bad layer adds little: $(value layers.2.added)" \
    awk -v x="$(value layers.2.added)" 'BEGIN { exit !(x > 0.5) }'

# limits
run 0 compare "$a" "$work/fp8" --tokens-file "$work/text" --mixed 0 --max-kl 0.1 --min-same 0.5
says "WITHIN: inside the limits given"
run 1 compare "$a" "$work/bad" --tokens-file "$work/text" --mixed 0 --max-kl 0.0001
says "FAIL: the mean KL is"
run 1 compare "$a" "$work/other" --tokens-file "$work/text" --mixed 0 --min-same 1
says_err "expected at least 1"
# a checkpoint compared with itself shows nothing
run 4 compare "$a" "$a" --tokens-file "$work/text"
says "MISTRUSTED: both give the same bits"
run 0 compare "$a" "$a" --tokens-file "$work/text" --allow-self --mixed 0

# the page: the same numbers as the document
run 0 compare "$a" "$work/other" --tokens-file "$work/text" --json --html "$work/other.html"
at kl.by_token.length 2
at kl.by_token.0.length 8
at kl.by_token.1.length 5
flips=$(value top1.count)
page "$work/other.html" MEASURED
has() { check "the page lacks: $1" grep -qF -- "$1" "$work/other.html"; }
has '<h1>other against a</h1>'
has "<p>$((13 - flips)) of 13.</p>"
same "rows of layers" "$(grep -c '^<tr><td><code>' "$work/other.html")" 6
same "rows of flips" "$(grep -c '^<tr><td>[01]</td>' "$work/other.html")" $((13 - flips))
same "red strokes" "$(grep 'class="flip"' "$work/other.html" | grep -o 'v-14' | wc -l)" $((13 - flips))
check "no flip" test $((13 - flips)) -gt 0
last_flip=flips.$((12 - flips))
has "M$(awk -v s="$(value $last_flip.sequence)" -v p="$(value $last_flip.position)" \
    'BEGIN { printf "%.1f", 1000 * (8 * s + p + 0.5) / 13 }') 200v-14"
has "<td>$(printf %.3e "$(value layers.2.kl)")</td>"
has "<dd>$(printf %.3e "$(value kl.mean)") nats</dd>"
has "$(printf '<td>%.4f</td><td>%.4f to %.4f</td>' "$(value acceptance.b.rate)" "$(value acceptance.b.low)" "$(value acceptance.b.high)")"
run 1 compare "$a" "$work/bad" --tokens-file "$work/text" --mixed 0 --max-kl 0.0001 --html "$work/limit.html"
page "$work/limit.html" FAIL
cp "$work/limit.html" "$work/first.html"
run 1 compare "$a" "$work/bad" --tokens-file "$work/text" --mixed 0 --max-kl 0.0001 --html "$work/limit.html"
check "another page" cmp "$work/limit.html" "$work/first.html"
mkdir "$work/<script>"
cp "$work/fp4"/* "$work/<script>/"
run 0 compare "$a" "$work/<script>" --tokens 5,6,7 --mixed 0 --html "$work/names.html"
page "$work/names.html" MEASURED
refused 3 compare "$a" "$work/fp4" --tokens 5,6 --mixed 0 --html "$work/none/page.html"
pages_seen

run 0 compare "$a" "$work/fp4" --tokens-file "$work/text" --card
says "### fp4 against a"
says "| KL divergence, mean (nats) |"
run 0 compare "$a" "$work/fp4" --tokens-file "$work/text" --b-set dequant=bf16_scale --mixed 4 --json
refused 2 compare "$a" "$work/fp4"
refused 2 compare "$a" --tokens-file "$work/text"
refused 3 compare "$a" "$work/t4" --tokens-file "$work/text"
refused 2 compare "$a" "$work/fp4" --tokens-file "$work/text" --profile nobody
echo 100000 > "$work/large"
refused 3 compare "$a" "$work/fp4" --tokens-file "$work/large"
# a single row shows nothing; --tokens has a meaning of its own and is no abbreviation of --tokens-file
run 0 compare "$a" "$work/fp4" --tokens 5,6,7 --mixed 0
says "1 text, 3 tokens"
run 4 compare "$a" "$work/fp4" --tokens 5 --mixed 0 --max-kl 100
says "MISTRUSTED: 1 token: "
run 1 compare "$a" "$work/other" --tokens 5 --mixed 0 --max-kl 0.0001
refused 2 compare "$a" "$work/fp4" --tokens 5,6 --tokens-file "$work/text"
refused 2 compare "$a" "$work/fp4" --tokens x
refused 2 compare "$a" "$work/fp4" --tokens-f "$work/text"
finish
