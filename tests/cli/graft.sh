#!/usr/bin/env bash
# samebit graft: the written and the linked files, the new configuration, and refusals.
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"

# the file where an index puts a tensor
place() { sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}$/\1/p" "$2/model.safetensors.index.json"; }
declared_as_stored() { # folder
    run 0 info "$1"
    says 'every layer is stored as declared'
}
# graft_of BASE PATTERN OTHER OPTION...: grafts into $work/o
graft_of() {
    local base=$1 pattern=$2 other=$3
    shift 3
    rm -rf "$work/o"
    run 0 graft "$work/$base" --take "$pattern" --from "$work/$other" -o "$work/o" "$@"
}
for format in bf16 nvfp4-ct nvfp4a16-ct nvfp4-modelopt nvidia-mix fp8-block fp8-channel fp8-tensor int4-gptq \
    int4-autoround int4-awq; do
    make_checkpoint $format --preset T3 --format $format
done
make_checkpoint headless --preset T3 --format nvfp4-ct --no-mtp

# the main use: a head that was dropped
cp -r "$work/headless" "$work/before"
echo '{"model": {"vocab": {"a": 0}}}' > "$work/headless/tokenizer.json"
ln -s "$work/headless/tokenizer.json" "$work/headless/chat_template.jinja"
graft_of headless 'mtp.*' bf16 --json
at taken_tensors 19
at gone_tensors 0
at files.0.action linked
at notes '[]'
declared_as_stored "$work/o"
for file in "$work"/headless/*.safetensors; do
    check "${file##*/} is no hard link" test "$file" -ef "$work/o/${file##*/}"
done
check "a link is a link" test ! -L "$work/o/chat_template.jinja" -a -f "$work/o/chat_template.jinja"
same "the place of the head" model-graft-00001.safetensors "$(place mtp.fc.weight "$work/o")"
check "the head has no layer" grep -q '"mtp_num_hidden_layers": 1' "$work/o/config.json"
check "the head is not excluded" grep -q 're:^mtp' "$work/o/config.json"
run 0 hash "$work/o"
grep ' mtp\.' "$out" > "$work/taken"
run 0 hash "$work/bf16"
check "a tensor has other bytes" test -s "$work/taken" -a -z "$(grep ' mtp\.' "$out" | diff - "$work/taken")"
check "the source changed" diff -r "$work/before/config.json" "$work/headless/config.json"

# a single file without an index gets an index and another name, because transformers would read that file alone
make_checkpoint single --preset T3 --format nvfp4-ct --no-mtp --shard-bytes 100000000
check "more than one file" test -f "$work/single/model.safetensors"
graft_of single 'mtp.*' bf16
check "it kept its name" test "$work/single/model.safetensors" -ef "$work/o/model-base-00001.safetensors"
same "the place of the norm" model-base-00001.safetensors "$(place model.norm.weight "$work/o")"
declared_as_stored "$work/o"

# a path with bytes that are not UTF-8 leaves the keys of the document intact
run 0 graft "$work/single" --take 'mtp.*' --from "$work/bf16" -o "$work/o"$'\377' --json
at folder "$work/o?"
# nothing of the old head stays: stacked experts replace single ones
graft_of int4-autoround 'mtp.*' bf16
check "an old tensor" test -z "$(grep -o '"mtp[^"]*qweight"' "$work/o/model.safetensors.index.json")"
declared_as_stored "$work/o"
graft_of bf16 'mtp.*' int4-autoround
declared_as_stored "$work/o"
check "the declaration was not taken over" grep -q auto-round "$work/o/config.json"

# the dialects; tests/unit/test_graft.c has more of them
pattern='*self_attn.*'
for pair in nvfp4-ct/bf16 nvfp4-ct/fp8-channel nvfp4-ct/fp8-tensor nvfp4-ct/nvfp4a16-ct nvfp4-modelopt/bf16 \
    nvfp4-modelopt/fp8-tensor nvidia-mix/bf16 nvidia-mix/fp8-tensor fp8-block/bf16 bf16/fp8-block int4-gptq/bf16 \
    int4-gptq/int4-autoround int4-autoround/bf16 int4-awq/bf16 bf16/int4-awq bf16/nvidia-mix; do
    graft_of "${pair%/*}" "$pattern" "${pair#*/}"
    check "a note" test -z "$(grep '^notes' "$out")"
    declared_as_stored "$work/o"
    [ "$pattern" = '*self_attn.*' ] && pattern='layers.1.mlp.*' || pattern='*self_attn.*'
done
graft_of nvidia-mix '*shared_expert.*' bf16
check "the two files differ" test -z "$(grep -h 'shared_expert\.' "$work/o/config.json" "$work/o/hf_quant_config.json")"
graft_of bf16 '*.mlp.*' nvfp4-ct # and back: in part, for a declaration of nothing is refused by the check
mv "$work/o" "$work/back"
refused 3 graft "$work/back" --take '*.mlp.*' --from "$work/bf16" -o "$work/o"
says_err 'the result was removed, because of ERROR'
check "it was not taken away" test ! -e "$work/o" -a ! -e "$work/o.partial"
graft_of back 'layers.0.mlp.*' bf16
declared_as_stored "$work/o"
same "a second graft has a file of its own" 1 "$(find "$work/o" -name 'model-graft-00002.safetensors' | wc -l)"

# FP8 blocks within INT4, as published, which the dialect cannot express
graft_of int4-autoround '*shared_expert.*' fp8-block
says 'cannot declare'
check "no key tells of it" grep -q _hybrid_quant_info "$work/o/config.json"
run 0 run "$work/o" --tokens 1,2 -n 1
graft_of nvfp4-ct '*q_proj' bf16
says 'engines that fuse such layers refuse the folder'

# W-15 to W-17: FP8 heads expressed in other dialects, decoded, or refused; there are no new findings
make_checkpoint ue8m0 --preset T3 --format fp8-block-ue8m0
findings() { # folder: the warnings and errors, and the head's verdict, with --need mtp
    run 0 check "$work/$1" --need mtp
    sed -n 's/^PASS [^:]*: \(.* WARN\),.*; \(MTP .*\)/\1 \2/p' "$out"
}
for base in nvfp4-ct nvfp4-modelopt nvidia-mix fp8-channel; do
    for pattern in 'mtp.*' 'layers.1.mlp.*'; do
        graft_of $base "$pattern" fp8-block
        declared_as_stored "$work/o"
        same "findings of $base with FP8 blocks" "$(findings $base)" "$(findings o)"
    done
    run 0 run "$work/$base" --tokens 1,2,3 -n 2 --overlay 'layers.1.mlp.*'="$work/fp8-block"
    grep -v CKPT "$out" | tail -n +2 > "$work/overlaid"
    run 0 run "$work/o" --tokens 1,2,3 -n 2
    check "other numbers than the overlay's" test "$(grep '^state' "$out")" = "$(grep '^state' "$work/overlaid")"
done
for base in int4-awq int4-gptq; do
    for how in --dry-run "-o $work/n"; do
        refused 3 graft "$work/$base" --take 'mtp.*' --from "$work/fp8-block" $how
        says_err "cannot declare 31 layers stored as fp8-block, the first mtp.layers.0.mlp.experts.0.down_proj"
        refused 3 graft "$work/$base" --take 'mtp.*' --from "$work/fp8-block" --as bf16 $how
        says_err 'of 16384 values of mtp.layers.0.mlp.experts.0.down_proj are not BF16 numbers (first at [0, 1]: '
    done
    check "something was written" test ! -e "$work/n" -a ! -e "$work/n.partial"
    graft_of $base 'mtp.*' fp8-block --as bf16 --round
    says 'decoded values were rounded to BF16'
    declared_as_stored "$work/o"
    run 0 check "$work/o" --need mtp
    check "another warning" test "$(grep -c '^\(FATAL\|ERROR\|WARN\) ' "$out")" = 2
    says 'WARN 40 double-quantization'
    says 'MTP FILE-OK'
    graft_of $base 'mtp.*' ue8m0 --as bf16 --json
    at rounded_values 0
    at decoded_values 671744
    at notes '[]'
    run 0 check "$work/o" --need mtp
    says ' 0 FATAL, 0 ERROR, '
done
# a head that is decoded exactly is the same head, and a second decoding changes nothing
run 0 run "$work/int4-gptq" --tokens 1,2,3 -n 2 --overlay 'mtp.*'="$work/o"
grep '^state mtp' "$out" > "$work/overlaid"
run 0 run "$work/o" --tokens 1,2,3 -n 2
check "another head than the overlay's" test "$(grep '^state mtp' "$out")" = "$(cat "$work/overlaid")"
run 0 graft "$work/int4-gptq" --take 'mtp.*' --from "$work/o" --as bf16 --dry-run
says 'decoded to BF16: 0 values, 0 of them rounded'
refused 2 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/bf16" -o "$work/n" --as f16
refused 2 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/bf16" -o "$work/n" --round
refused 2 graft "$work/nvfp4-ct" --reindex -o "$work/n" --as bf16

# a dry run on headers and holes writes nothing and reports the same
sparse() { # folder, copy: headers only
    mkdir "$work/$2"
    cp "$work/$1"/*.json "$work/$2"
    local file n
    for file in "$work/$1"/*.safetensors; do
        n=$(od -An -tu8 -N8 "$file" | tr -d ' ')
        head -c $((8 + n)) "$file" > "$work/$2/${file##*/}"
        truncate -s "$(stat -c %s "$file")" "$work/$2/${file##*/}"
    done
}
sparse int4-autoround hollow-int4
sparse fp8-block hollow-fp8
run 0 graft "$work/int4-autoround" --take '*linear_attn.*' --from "$work/fp8-block" --dry-run
cp "$out" "$work/whole"
says 'without counterpart by name'
says 'dry run: nothing was written'
run 0 graft "$work/hollow-int4" --take '*linear_attn.*' --from "$work/hollow-fp8" --dry-run
check "headers tell something else" cmp -s "$work/whole" "$out"
run 0 graft "$work/int4-autoround" --take 'mtp.*' --take '*gate' --from "$work/bf16" -o "$work/none" --dry-run
check "a dry run wrote" test ! -e "$work/none" -a ! -e "$work/none.partial"

# refusals, all before anything is written
refused 2 graft "$work/nvfp4-ct" --take 'mtp.*' -o "$work/n"
refused 2 graft "$work/nvfp4-ct" --from "$work/bf16" -o "$work/n"
refused 2 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/bf16"
refused 2 graft "$work/nvfp4-ct" --take '*.q_prj' --from "$work/bf16" -o "$work/n"
says_err 'self_attn.q_proj'
refused 2 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/headless" -o "$work/n"
says_err 'has nothing that matches'
refused 2 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/bf16" -o "$work/o"
says_err 'exists'
refused 2 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/bf16" -o "$work/nvfp4-ct" --replace
make_checkpoint T1 --preset T1
refused 3 graft "$work/nvfp4-ct" --take '*linear_attn*' --from "$work/T1" -o "$work/n"
says_err 'this is another model'
make_checkpoint shards --preset T3 --shard-bytes 200000
rm "$work/shards/model-00002-of-"*
refused 3 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/shards" -o "$work/n"
says_err 'model-00002-of-'
check "something was written" test ! -e "$work/n" -a ! -e "$work/n.partial"
run 0 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/bf16" -o "$work/o" --replace
# the source is never replaced, also if it is named by another path
ln -s bf16 "$work/other-name"
for from in bf16 other-name; do
    refused 2 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/$from" -o "$work//bf16/" --replace
    says_err 'this command reads this file'
done
refused 2 graft "$work/nvfp4-ct" --take 'mtp.*' --from "$work/bf16" -o ''
says_err 'is empty'

# an index that lacks the head: the head is added, and nothing is copied
graft_of headless 'mtp.*' bf16
mv "$work/o" "$work/whole-head"
lost() { # NAME: the head is there, and neither index nor configuration know of it
    rm -rf "$work/$1"
    cp -r "$work/whole-head" "$work/$1"
    cp "$work/headless/config.json" "$work/headless/model.safetensors.index.json" "$work/$1"
}
lost unindexed
run 1 check "$work/unindexed" --need mtp
says 'MTP FILE-BAD: files and index: 19 tensors are in model-graft-00001.safetensors, but not in the index'
says "  next: samebit graft $work/unindexed --reindex -o OUT"
run 0 graft "$work/unindexed" --reindex --dry-run
says 'model.safetensors.index.json: + 19 tensors of model-graft-00001.safetensors, the first mtp.fc.weight'
check "a dry run wrote" test ! -e "$work/i"
run 0 graft "$work/unindexed" --reindex -o "$work/i" --json
at taken_tensors 0
for file in "$work"/unindexed/*.safetensors; do
    check "${file##*/} is no hard link" test "$file" -ef "$work/i/${file##*/}"
done
run 0 check "$work/i" --need mtp
declared_as_stored "$work/i"
check "another index than the whole folder's" cmp -s "$work/i/model.safetensors.index.json" \
    "$work/whole-head/model.safetensors.index.json"
refused 2 graft "$work/i" --reindex -o "$work/n"
says_err 'there is nothing to repair'
# the lists of other dialects, and a model without an index
for format in nvfp4-modelopt int4-gptq int4-awq fp8-block bf16; do
    make_checkpoint bare --preset T3 --format $format --no-mtp
    graft_of bare 'mtp.*' bf16
    cp "$work"/bare/*.json "$work/o"
    rm -rf "$work/i"
    run 0 graft "$work/o" --reindex -o "$work/i"
    run 0 check "$work/i" --need mtp
    declared_as_stored "$work/i"
    rm -rf "$work/bare"
done
cp "$work/whole-head/model-graft-00001.safetensors" "$work/single/extra_weights.safetensors"
rm -rf "$work/i"
run 0 graft "$work/single" --reindex -o "$work/i"
same "the place of the norm" model-base-00001.safetensors "$(place model.norm.weight "$work/i")"
same "the place of the head" extra_weights.safetensors "$(place mtp.fc.weight "$work/i")"
run 0 check "$work/i" --need mtp
# faults that no index can mend are named
refused 2 graft "$work/unindexed" --reindex --take 'mtp.*' -o "$work/n"
refused 2 graft "$work/unindexed" --reindex --from "$work/bf16" -o "$work/n"
refused 2 graft "$work/unindexed" --reindex
cp "$work/whole-head/model-graft-00001.safetensors" "$work/unindexed/mtp.safetensors"
rm -rf "$work/i"
run 0 graft "$work/unindexed" --reindex -o "$work/i"
says '  dropped    mtp.safetensors: '
run 0 check "$work/i" --need mtp
size=$(stat -c %s "$work/unindexed/mtp.safetensors")
printf '\1\2\3' | dd of="$work/unindexed/mtp.safetensors" bs=1 seek=$((size - 3)) conv=notrunc 2> /dev/null
refused 3 graft "$work/unindexed" --reindex -o "$work/n"
says_err 'is also in mtp.safetensors, with other bytes'
lost unindexed
truncate -s -1 "$work/unindexed/model-graft-00001.safetensors"
refused 3 graft "$work/unindexed" --reindex -o "$work/n"
says_err '--include model-graft-00001.safetensors'
lost unindexed
rm "$work/unindexed/$(place model.norm.weight "$work/headless")"
refused 3 graft "$work/unindexed" --reindex -o "$work/n"
says_err 'the index places '
check "something was written" test ! -e "$work/n" -a ! -e "$work/n.partial"

# a checkpoint named by its id, in the cache of the hub: links to the blobs, or copies
mkdir -p "$work/hub/models--org--tiny/"{refs,blobs,snapshots/abc}
printf abc > "$work/hub/models--org--tiny/refs/main"
for file in "$work"/headless/*; do
    cp "$file" "$work/hub/models--org--tiny/blobs/${file##*/}-blob"
    ln -s "../../blobs/${file##*/}-blob" "$work/hub/models--org--tiny/snapshots/abc/${file##*/}"
done
one=$(place model.norm.weight "$work/headless")
HF_HUB_CACHE=$work/hub run 0 graft org/tiny --take 'mtp.*' --from "$work/bf16" -o "$work/o" --replace
check "no link to the blob" test "$work/o/$one" -ef "$work/hub/models--org--tiny/blobs/$one-blob" -a ! -L "$work/o/$one"
HF_HUB_CACHE=$work/hub run 0 graft org/tiny --take 'mtp.*' --from "$work/bf16" -o "$work/o" --replace --copy
says "  copied     $one: "
check "no copy" test ! "$work/o/$one" -ef "$work/hub/models--org--tiny/blobs/$one-blob"
check "the copy differs" cmp -s "$work/o/$one" "$work/headless/$one"
HF_HUB_CACHE=$work/hub refused 3 graft "$work/nvfp4-ct" --take 'mtp.*' --from org/huge -o "$work/n"
says_err 'hf download org/huge'

# a file that becomes too large, and a graft that is killed: no half-written folder
last='graft (files of at most 300 kB)'
(
    trap '' XFSZ
    ulimit -f 300
    "$SAMEBIT" graft "$work/nvfp4-ct" --take '*' --from "$work/bf16" -o "$work/full"
    echo $?
) > "$out" 2> "$err"
says 3
says_err 'File too large'
check "something was left" test ! -e "$work/full" -a ! -e "$work/full.partial"
make_checkpoint large --preset T2 --format bf16
make_checkpoint target --preset T2 --format nvfp4-ct
for wait in 0.002 0.005 0.01 0.02 0.04; do
    rm -rf "$work/k" "$work/k.partial"
    "$SAMEBIT" graft "$work/target" --take '*' --from "$work/large" -o "$work/k" > /dev/null 2>&1 &
    pid=$!
    sleep $wait
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    check "more than the partial folder" test -z "$(find "$work" -maxdepth 1 -name 'k*' ! -name k.partial ! -name k)"
    [ ! -e "$work/k" ] || declared_as_stored "$work/k"
done
rm -rf "$work/k" "$work/k.partial"
mkdir "$work/k.partial"
refused 2 graft "$work/target" --take 'mtp.*' --from "$work/large" -o "$work/k"
says_err "$work/k.partial: exists"
finish
