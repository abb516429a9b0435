#!/usr/bin/env bash
# check --sample: on honest folders it finds nothing that the whole check does not find; what it chooses; what it says.
# tests/cli/remote.sh has the same with a server. CHECK_ALL=1: more sizes, and all formats.
. "$(dirname "$0")/lib.bash"

# honest folders, of real quantizers and of make: a sample of any size has no finding of its own
sizes=(1 5 14) formats=(nvfp4-ct mxfp4 fp8-block)
if [ "${CHECK_ALL-}" = 1 ]; then
    sizes=(1 2 3 4 5 6 7 8 10 14 20 40 80 200)
    run 0 make --list --json
    formats=()
    for ((i = 0; ; i++)); do
        format=$(value "format.$i.name" 2> /dev/null) || break
        formats+=("$format")
    done
fi
for format in "${formats[@]}"; do
    make_checkpoint "made-$format" --preset T4 --recipe plain --format "$format"
done
# worse OUT ARG...: the kinds of findings of WARN and worse of check ARG
worse() {
    local out=$1
    "$SAMEBIT" check "${@:2}" --json 2> /dev/null | tr -d ' \n' > "$work/document"
    check "check ${*:2} gives no verdict" grep -qE '"verdict":"(PASS|FAIL)"' "$work/document"
    grep -oE '"check":[0-9]+,"id":"[a-z_0-9-]*","level":"(WARN|ERROR|FATAL)"' "$work/document" | sort -u > "$out"
}
: > "$work/all"
for config in golden/quant/*/config.json "$work"/made-*/config.json; do
    folder=${config%/*}
    worse "$work/whole" "$folder"
    for size in "${sizes[@]}"; do
        worse "$work/some" "$folder" --sample "$size"
        cat "$work/some" >> "$work/all"
        check "$folder, $size: the sample has a finding of its own: $(comm -13 "$work/whole" "$work/some" | head -n 1)" \
            test -z "$(comm -13 "$work/whole" "$work/some")"
    done
done
check "no sample has a finding at all" test -s "$work/all"

# layers that engines fuse are chosen together or not at all
run 0 check "$work/made-nvfp4-ct" --sample 14 --json
together=0
for set in 'q_proj k_proj v_proj' 'gate_proj up_proj' 'in_proj_qkv in_proj_z'; do
    for layer in 0 1 2 3; do
        read -r first others <<< "$set"
        count=$(grep -oE "\"[a-z_.]*layers[.]$layer[.][a-z_]*[.]($first|${others// /|})\"" <<< "$(value sample.read)" | wc -l)
        check "layer $layer, $set: $count of them" test "$count" = 0 -o "$count" = "$(wc -w <<< "$set")"
        together=$((together + count))
    done
done
check "no fused layers are in the sample" test $together -gt 0

for words in '--headers' '--against x' '--run 4' '--loaded x'; do
    # shellcheck disable=SC2086
    refused 2 check "$work/made-nvfp4-ct" --sample 4 $words
    says_err '--sample and'
done
refused 2 check "$work/made-nvfp4-ct" --sample 5000
says_err '--sample is 5000; at most 4096'
finish
