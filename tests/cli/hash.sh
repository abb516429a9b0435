#!/usr/bin/env bash
# hash: the same tensors have the same manifest in every storage, and every change is named.
. "$(dirname "$0")/lib.bash"

make_checkpoint a --preset T1
make_checkpoint shards --preset T1 --shard-bytes 300000
make_checkpoint split --preset T1 --experts split
make_checkpoint other --preset T1 --seed 43
a=$work/a

run 0 hash "$a"
cp "$out" "$work/plain"
says 'samebit-manifest 1'
check "one line a tensor" test "$(grep -c '^tensor [0-9a-f]\{32\} ' "$out")" = "$("$SAMEBIT" info "$a" --json |
    "$helpers/json_at" storage.bound_tensors)"
check "lines are sorted by name" bash -c "grep '^tensor' '$out' | cut -d ' ' -f 5- | LC_ALL=C sort -c"
digest=$(sed -n 's/^checkpoint //p' "$out")
run 0 hash "$work/shards"
check "shards change the manifest" cmp "$out" "$work/plain"
run 0 hash "$a/"
check "a slash changes the manifest" cmp "$out" "$work/plain"
for threads in 1 3; do
    run 0 hash "$a" --values --threads $threads
    [ $threads = 1 ] && cp "$out" "$work/values"
    check "threads change digests" cmp "$out" "$work/values"
done
says "checkpoint $digest"
run 0 hash "$a" --values --json
cp "$out" "$work/values.json"
at spec 2
at command hash
at checkpoint "$digest"
same "digests of text and JSON" "$(value meaning)" "$(sed -n 's/^meaning //p' "$work/values")"
# the digest is the one that golden files have
run 0 golden write "$work/g" "$a" --tokens 1 -n 1 --json
at checkpoint "$digest"

for manifest in plain values values.json; do
    for folder in a shards; do
        run 0 hash "$work/$folder" --verify "$work/$manifest"
        says "IDENTICAL $work/$folder"
    done
    run 1 hash "$work/other" --verify "$work/$manifest"
    check "not one line on stderr" one_line
    says 'differs  lm_head.weight (bytes)'
    run 1 hash "$work/split" --verify "$work/$manifest"
    says_err 'missing, first model.layers.0.mlp.experts.down_proj (tensor)'
    says_err 'extra, first model.layers.0.mlp.experts.0.down_proj.weight (tensor)'
done
run 0 hash "$work/split" --values --verify "$work/values"
run 0 hash "$work/split" --values --verify "$work/values.json" --json
at verdict IDENTICAL
run 1 hash "$work/other" --values --verify "$work/values" --json
at verdict FAIL
same "the message of both" "samebit: $(value message)" "$(cat "$err")"
check "no list of differences" test "$(value 'differences.0.difference')" = differs

# one bit in one tensor, at the end of the last shard
cp -r "$a" "$work/bit"
file=$(ls "$work/bit"/*.safetensors | tail -1)
size=$(wc -c < "$file")
byte=$(tail -c 1 "$file" | od -An -tu1)
printf "\\$(printf %o $((byte ^ 1)))" | dd of="$file" bs=1 seek=$((size - 1)) conv=notrunc 2> "$err"
run 1 hash "$work/bit" --verify "$work/plain"
check "one bit, and not one line" test "$(grep -c '^differs' "$out")" = 1

# the last bit of a multiplier: its reciprocal often stays the same, but the exact values change
make_checkpoint modelopt --preset T1 --layers 4 --format nvfp4-modelopt
run 0 hash "$work/modelopt" --values
sed 's/^\(value [0-9a-f]* \)[0-9a-f]*\( [0-9a-f]\{8\} .* nvfp4-modelopt .*experts.3.up_proj\)$/\1ffffffffffffffffffffffffffffffff\2/' \
    "$out" > "$work/exact"
run 1 hash "$work/modelopt" --values --verify "$work/exact"
says 'experts.3.up_proj (exact values)'
sed 's/ nvfp4-modelopt / nvfp4-ct /' "$work/exact" > "$work/dialect"
run 0 hash "$work/modelopt" --values --verify "$work/dialect"

# files that are no manifests, and damaged manifests
refused 3 hash "$a" --verify "$work/no-such-file"
refused 3 hash "$a" --verify "$a/config.json"
refused 3 hash "$a" --values --verify "$work/plain"
says_err 'without --values'
head -n 20 "$work/plain" > "$work/short"
refused 3 hash "$a" --verify "$work/short"
says_err truncated
sed '5s/BF16/F16/' "$work/plain" > "$work/bad"
refused 3 hash "$a" --verify "$work/bad"
says_err 'the file was changed'
# no command succeeds if its output cannot be printed
for command in "hash $a" "hash $a --json" "hash $a --verify $work/plain" "hash $a --verify $work/plain --json" \
    "info $a" "info $a --laws" 'info --ops' 'make --list' 'make --help'; do
    last="$command > /dev/full"
    # shellcheck disable=SC2086
    "$SAMEBIT" $command > /dev/full 2> "$err"
    check "exit status of a full device" test $? = 3
    : > "$out"
    says_err 'could not be written to stdout'
done
refused 2 hash
refused 2 hash "$a" "$a"
refused 2 hash "$a" --verify
refused 3 hash "$work/no-such-folder"
finish
