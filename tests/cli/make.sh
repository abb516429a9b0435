#!/usr/bin/env bash
# make: the same bytes twice, other bytes for another seed, and existing files are not lost.
. "$(dirname "$0")/lib.bash"

run 0 make "$work/a" --preset T4
says "wrote $work/a"
run 0 make "$work/b" --preset T4 --seed 42 --format bf16 --recipe mistakes --layout text
check "two runs give different bytes" diff -r "$work/a" "$work/b"
SAMEBIT_ISA=scalar OMP_NUM_THREADS=3 "$SAMEBIT" make "$work/c" --preset T4 > /dev/null
check "threads change bytes" diff -r "$work/a" "$work/c"
for other in '--seed 43' '--recipe plain' '--recipe predictable' '--format f16' '--layers 3' '--no-mtp' \
    '--layout vl' '--storage qwen3.5'; do
    # shellcheck disable=SC2086
    run 0 make "$work/other" --preset T4 --replace $other
    check "$other changes no byte" test "$(cat "$work"/other/* | cksum)" != "$(cat "$work"/a/* | cksum)"
    run 0 info "$work/other"
done

# a folder that is not empty stays as it is
cp -r "$work/a" "$work/before"
refused 2 make "$work/a" --preset T3
says_err "$work/a"
check "the folder was changed" diff -r "$work/a" "$work/before"
mkdir "$work/mine"
echo precious > "$work/mine/notes.txt"
refused 2 make "$work/mine" --preset T4
check "the folder was changed" test "$(ls "$work/mine")" = notes.txt
run 0 make "$work/mine" --preset T4 --replace
check "a file of somebody else is gone" grep -q precious "$work/mine/notes.txt"
echo precious > "$work/file"
refused 3 make "$work/file" --preset T4
refused 3 make "$work/file/sub" --preset T4
check "the file was changed" test "$(cat "$work/file")" = precious
mkdir "$work/empty"
run 0 make "$work/empty" --preset T4
check "an empty folder gets other bytes" diff -r "$work/a" "$work/empty"

# a folder with shards holds the same values
run 0 make "$work/one" --preset T4 --shard-bytes 1000000000
check "more than one shard" test -e "$work/one/model.safetensors"
run 0 make "$work/many" --preset T4 --shard-bytes 200000
check "fewer than six shards" test "$(ls "$work/many" | grep -c '^model-')" -ge 6
for folder in a one many; do
    run 0 run "$work/$folder" --tokens 1,2,3 -n 2
    digest[${#folder}]=$(tail -n 1 "$out")
done
same "shards change the state" "${digest[1]}" "${digest[3]}"
same "shards change the state" "${digest[1]}" "${digest[4]}"

# the weights of a checkpoint instead of drawn ones
run 0 make "$work/plain" --preset T4 --recipe plain
run 0 make "$work/plain-fp8" --preset T4 --recipe plain --format fp8-block
run 0 make "$work/taken" --weights "$work/plain" --format fp8-block
check "weights that are taken give other bytes" diff -r "$work/plain-fp8" "$work/taken"
refused 2 make "$work/x" --preset T4 --weights "$work/plain"
says_err "neither --preset"
refused 3 make "$work/x" --weights "$work/no-such"
check "something was written" test ! -e "$work/x"

# a drafter for the same target: the same bytes twice; the dialect changes names and config.json, and no value
run 0 make "$work/drafter" --preset T4 --drafter eagle3
run 0 make "$work/again" --preset T4 --drafter eagle3 --dialect speculators --format nvfp4-ct --layout vl
check "two runs give different bytes" diff -r "$work/drafter" "$work/again"
run 0 make "$work/forge" --preset T4 --drafter eagle3 --dialect specforge
check "no midlayer" grep -q '"midlayer.hidden_norm.weight"' "$work/forge/model.safetensors"
for folder in drafter forge; do
    run 0 run "$work/a" --tokens 1,2,3 -n 9 --draft 2 --drafter "$work/$folder" --json
    rounds[${#folder}]=$(value rounds)
done
same "the dialect changes drafts" "${rounds[7]}" "${rounds[5]}"
for other in '--seed 43' '--recipe plain' '--recipe predictable' '--layers 3' '--flags fc_norm' '--flags qwen3,own_embedding' '--draft-vocab 100'; do
    # shellcheck disable=SC2086
    run 0 make "$work/other" --preset T4 --drafter eagle3 --replace $other
    check "$other changes no byte" test "$(cat "$work"/other/* | cksum)" != "$(cat "$work"/drafter/* | cksum)"
    [ "$other" = '--layers 3' ] || run 0 run "$work/a" --tokens 1,2,3 -n 4 --draft 2 --drafter "$work/other"
done
run 0 make "$work/other" --preset T4 --drafter eagle3 --replace --draft-vocab 384
refused 2 make "$work/y" --preset T4 --drafter eagle3 --draft-vocab 385
says_err 'at most 384'
refused 2 make "$work/y" --preset T4 --drafter eagle
says_err 'expected eagle3'
refused 2 make "$work/y" --preset T4 --drafter eagle3 --flags fc_norm,norm_before_fc
says_err 'exclude each other'
refused 2 make "$work/y" --preset T4 --drafter eagle3 --flags norms
says_err 'expected one of norm_before_residual'
refused 2 make "$work/y" --preset T4 --drafter eagle3 --flags qwen3 --dialect specforge
refused 2 make "$work/y" --preset T4 --drafter eagle3 --layers 2
says_err 'three states'
refused 2 make "$work/y" --preset T4 --drafter eagle3 --recipe predictable-1
refused 2 make "$work/y" --weights "$work/plain" --drafter eagle3
refused 2 make "$work/y" --preset T4 --flags fc_norm
says_err 'for a drafter'
refused 2 make "$work/drafter" --preset T4 --drafter eagle3
check "something was written" test ! -e "$work/y"

run 0 make --list
for word in T1 T6 35b-a3b mistakes predictable bf16 f32 text vl qwen3.5 fused split; do says "$word"; done
refused 2 make "$work/x" --list
finish
