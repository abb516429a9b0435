#!/usr/bin/env bash
# samebit run --overlay: the numbers are those of the grafted folder, for every mix of checkpoints.
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"

for format in bf16 nvfp4-ct nvidia-mix fp8-block int4-autoround int4-awq; do
    make_checkpoint $format --preset T3 --format $format
done
make_checkpoint T1 --preset T1
make_checkpoint vl --preset T3 --layout vl
make_checkpoint split --preset T3 --experts split

# digests BASE PATTERN OTHER: a run on the graft and a run with the overlay print the same
digests() {
    rm -rf "$work/grafted"
    run 0 graft "$work/$1" --take "$2" --from "$work/$3" -o "$work/grafted"
    run 0 run "$work/grafted" --tokens 1,2,3 -n 2
    cp "$out" "$work/expected"
    run 0 run "$work/$1" --tokens 1,2,3 -n 2 --overlay "$2=$work/$3"
    check "the overlay differs from the graft: $*" cmp -s "$out" "$work/expected"
}
plain=
for base in nvfp4-ct int4-autoround nvidia-mix; do
    for pattern in 'mtp.*' 'layers.0.mlp.experts.*' '*self_attn.*'; do digests $base "$pattern" bf16; done
done
digests bf16 'layers.0.mlp.experts.*' nvfp4-ct # one by one into stacked
digests bf16 'layers.1.*' int4-awq
digests fp8-block '*shared_expert.*' bf16
# a graft has to declare what it writes, and fp8 cannot declare NVFP4; an overlay declares nothing
refused 3 graft "$work/fp8-block" --take '*shared_expert.*' --from "$work/nvfp4-ct" -o "$work/refused"
run 0 run "$work/fp8-block" --tokens 1,2,3 -n 2 --overlay "*shared_expert.*=$work/nvfp4-ct"
digests nvfp4-ct '*.mlp.*' fp8-block
digests split 'layers.1.mlp.experts.*' bf16
digests bf16 'layers.2.*' vl # another prefix

# an overlay of all modules gives the other checkpoint; of several overlays the last one counts
run 0 run "$work/bf16" --tokens 1,2,3 -n 2
plain=$(cat "$out")
run 0 run "$work/nvfp4-ct" --tokens 1,2,3 -n 2
differ "the numbers of two formats" "$plain" "$(cat "$out")"
run 0 run "$work/nvfp4-ct" --tokens 1,2,3 -n 2 --overlay "*=$work/bf16"
same "all of it laid over" "$plain" "$(cat "$out")"
run 0 run "$work/nvfp4-ct" --tokens 1,2,3 -n 2 --overlay "*=$work/fp8-block" --overlay "*=$work/bf16"
same "laid over twice" "$plain" "$(cat "$out")"

# check examines the result of the overlay: another folder's head repairs a lost one, a damaged head is found
run 0 make "$work/headless" --preset T3 --format nvfp4-ct --no-mtp
sed -i 's/"mtp_num_hidden_layers": 0/"mtp_num_hidden_layers": 1/' "$work/headless/config.json"
run 1 check "$work/headless" --need mtp
says 'MTP FILE-BAD'
run 0 check "$work/headless" --need mtp --overlay "mtp.*=$work/bf16" --against "$work/bf16"
says 'MTP FILE-OK'
says "with mtp.*=$work/bf16 laid over"
run 0 check "$work/nvfp4-ct" --overlay "layers.0.*=$work/fp8-block" --only 4,9,31 --against "$work/bf16"
cp -r "$work/bf16" "$work/damaged"
for shard in "$work"/damaged/*.safetensors; do # a NaN at the end of each file
    printf '\377\377' | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 2)) conv=notrunc status=none
done
run 0 check "$work/nvfp4-ct" --only 12
run 1 check "$work/nvfp4-ct" --only 12 --overlay "*=$work/damaged" --json
at overlays "[\"*=$work/damaged\"]"

refused 2 run "$work/nvfp4-ct" --tokens 1 --overlay 'mtp.*'
refused 2 check "$work/nvfp4-ct" --overlay 'mtp.*'
refused 2 run "$work/nvfp4-ct" --tokens 1 --overlay "=$work/bf16"
refused 2 run "$work/nvfp4-ct" --tokens 1 --overlay "mpt.*=$work/bf16"
says_err 'there are embed_tokens, layers, lm_head, mtp, norm'
refused 2 run "$work/nvfp4-ct" --tokens 1 --overlay "layers.0.mlp.experts.1.*=$work/bf16"
says_err 'they can only be taken together'
refused 2 run "$work/nvfp4-ct" --tokens 1 --overlay "a[b]=$work/bf16"
refused 3 run "$work/nvfp4-ct" --tokens 1 --overlay "mtp.*=$work/no-such-folder"
refused 3 run "$work/nvfp4-ct" --tokens 1 --overlay "*linear_attn.*=$work/T1"
says_err 'this is another model'
finish
