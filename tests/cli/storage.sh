#!/usr/bin/env bash
# The same values stored in other ways give the same tokens and digests.
. "$(dirname "$0")/lib.bash"

# result OPTION...: the document of a run on a folder made with these options
result() {
    make_checkpoint ckpt --replace "$@"
    rm -f "$work"/ckpt/*.old
    run 0 run "$work/ckpt" --tokens 1,2,3,4,5,6,7 -n 3 --json
}
# alike PRESET OPTION... -- OPTION...: both give the same document
alike() {
    local a=() b=()
    while [ "$1" != -- ]; do a+=("$1"); shift; done
    shift
    b=("$@")
    rm -rf "$work/ckpt"
    result "${a[@]}"
    cp "$out" "$work/a"
    rm -rf "$work/ckpt"
    result "${b[@]}"
    check "${a[*]} and ${b[*]}" cmp "$out" "$work/a"
}
for preset in T3 T4; do
    alike --preset $preset -- --preset $preset --layout vl
done
alike --preset T3 -- --preset T3 --experts split
alike --preset T5 -- --preset T5 --experts fused
alike --preset T4 --format f32 -- --preset T4 --format f32 --storage qwen3.5
alike --preset T3 --format f32 -- --preset T3 --format f32 --storage qwen3.5 --layout vl
alike --preset T4 --recipe plain -- --preset T4 --recipe plain --shard-bytes 100000
# without its head the trunk is the same, and the digest of the head is null
result --preset T3
grep -v '"mtp"' "$out" > "$work/a"
result --preset T3 --no-mtp
at state_digest.mtp null
check "the trunk without a head" cmp <(grep -v '"mtp"' "$out") "$work/a"

# if values differ, digests differ
result --preset T4
state=$(value state_digest.target)
for other in '--format f16' '--format f32' '--seed 1' '--recipe plain' '--layers 3'; do
    rm -rf "$work/ckpt"
    # shellcheck disable=SC2086
    result --preset T4 $other
    differ "T4 and T4 $other" "$state" "$(value state_digest.target)"
done

# the path of a folder may end in a slash, be a link, or contain ./
make_checkpoint t4 --preset T4
ln -s t4 "$work/link"
run 0 run "$work/t4" --tokens 1 -n 1
cp "$out" "$work/a"
for path in "$work/t4/" "$work/link" "$work/./t4"; do
    run 0 run "$path" --tokens 1 -n 1
    check "another result for $path" cmp "$out" "$work/a"
done
finish
