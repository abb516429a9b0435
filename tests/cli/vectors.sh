#!/usr/bin/env bash
# vectors: the same request gives the same bytes everywhere, and a wrong request writes nothing.
. "$(dirname "$0")/lib.bash"

v=$work/v
digest() { value files.0.digest; }

# --- what there is
run 0 vectors --list
ops=$(sed -n 's/^SB_GATE_OP(\([a-z0-9_]*\)).*/\1/p' tools/judge/gate/ops.def)
check "no ops" test "$(wc -w <<< "$ops")" -ge 1
for op in $ops; do says "$op: "; done
for regime in $(sed -n 's/^SB_GATE_REGIME([a-z_]*, "\([a-z-]*\)".*/\1/p' tools/judge/gate/regimes.def); do
    says "  $regime "
    check "docs/gates.md lacks the regime $regime" grep -q "^| $regime | " docs/gates.md
done
for arith in exact fp32 bf16_mma fp8_mma nvfp4_mma fp8_short; do
    says "  $arith "
    check "docs/gates.md lacks the arithmetic $arith" grep -q "^| $arith | " docs/gates.md
done
run 0 vectors --list --json
at command vectors
at regimes.0.name normal
at ariths.0.name exact
at "ops.$(($(wc -w <<< "$ops") - 1)).name" "$(tail -n 1 <<< "$ops")"
op=$(value ops.0.name) param=$(value ops.0.params.0.name) most=$(value ops.0.params.0.most)
format=$(value ops.0.formats.0) shape=$(value ops.0.shapes.0)
run 0 vectors "$op" --list
says "$op: "
check "another op is listed" test "$(grep -c '^[a-z]' "$out")" = 3
# and its arrays, as the file has them
run 0 vectors linear --format fp8-block --shape rows=3,n=256,k=128 --input f16 --list
grep -oE '^    in\.[a-z_]+ +[A-Z0-9_]+ +\[[0-9,]*\]' "$out" | tr -s ' ' > "$work/listed"
run 0 vectors linear --format fp8-block --shape rows=3,n=256,k=128 --input f16 --list --json
at inputs.0.dtype F16
at inputs.0.shape.1 128
at outputs.0.shape.0 3
at outputs.0.kind values
run 0 vectors linear --format fp8-block --shape rows=3,n=256,k=128 --input f16 -o "$v"
while read -r name dtype dims; do
    check "$name $dtype $dims is not in the file" grep -qaF "\"$name\":{\"dtype\":\"$dtype\",\"shape\":$dims" "$v"
done < "$work/listed"
check "no inputs are listed" test "$(wc -l < "$work/listed")" -ge 3
refused 2 vectors linear --shape nonsense=3 --list

# --- one file
run 0 vectors "$op" -o "$v" --json
at files.0.path "$v"
at files.0.op "$op"
at files.0.regime normal
at input BF16
at arith bf16_mma
at seed 42
at files.0.bytes "$(wc -c < "$v")"
first=$(digest)
cp "$v" "$work/first"
check "another digest" test "$("$SAMEBIT" vectors "$op" -o "$v" | cut -d ' ' -f 1)" = "$first"
for isa in exact scalar auto; do
    for threads in 1 3; do
        OMP_NUM_THREADS=$threads SAMEBIT_ISA=$isa run 0 vectors "$op" -o "$v" --json
        same "the digest with $isa and $threads threads" "$(digest)" "$first"
        check "other bytes with $isa and $threads threads" cmp "$v" "$work/first"
    done
done
for other in "--seed 43" "--input f32" "--input f16" "--regime ties" "--arith fp32" "--shape $param=2"; do
    # shellcheck disable=SC2086
    run 0 vectors "$op" $other -o "$v" --json
    check "the same bytes with $other" test "$(digest)" != "$first"
done
check "something is left beside the file" test "$(find "$work" -name 'v?*' | wc -l)" = 0

# --- many
run 0 vectors "$op" --regime all -o "$work/all/"
check "not a file for each regime" test \
    "$(find "$work/all" -name "$op.$format.*.default.safetensors" | wc -l)" = "$(grep -c safetensors "$out")"
check "normal is another case alone" cmp "$work/all/$op.$format.normal.default.safetensors" "$work/first"
run 0 vectors "$op" --shape all --format all -o "$work/all/"
check "no file of the shape $shape" test -s "$work/all/$op.$format.normal.$shape.safetensors"
refused 2 vectors "$op" --regime all -o "$work/one"
says_err 'expected a folder'
check "something was written" test ! -e "$work/one"
refused 3 vectors "$op" --regime all -o "$work/none/none/"
says_err "$work/none/none"
touch "$work/all/note" && mkdir "$work/all/more" && before=$(ls "$work/all")
run 0 vectors "$op" --regime all --seed 7 -o "$work/all/"
check "a file of the folder is gone" test "$(ls "$work/all")" = "$before"
check "a case is not the new one" test "$(cmp -s "$work/all/$op.$format.normal.default.safetensors" "$work/first"; echo $?)" = 1
check "a case of another shape is not the old one" test -s "$work/all/$op.$format.normal.$shape.safetensors"
check "something is left beside the folder" test ! -e "$work/all.partial" -a ! -e "$work/all.replaced"
mkdir "$work/all.partial"
refused 2 vectors "$op" --regime all -o "$work/all/"
says_err "$work/all.partial: exists, left by an interrupted run"
run 0 vectors "$op" -o "$work/all/" # one case is written or not
refused 3 judge "$work/all.partial/" "$work/all"
says_err 'cases may be missing'
refused 2 vectors "$op" --regime all -o "$work/all/."
refused 2 vectors "$op" --regime all -o "$work/all/../"
touch "$work/file"
refused 2 vectors "$op" --regime all -o "$work/file"
refused 3 vectors "$op" --regime all -o "$work/file/"

# --- wrong use
refused 2 vectors
says_err 'OP is missing'
refused 2 vectors "$op"
says_err '-o is missing'
refused 2 vectors no_such_op -o "$work/no"
says_err "'no_such_op'"
refused 2 vectors --list no_such_op
refused 2 vectors "$op" -o "$work/no" --shape "$param=0"
says_err "$param is '0', expected"
refused 2 vectors "$op" -o "$work/no" --shape "$param=$((most + 1))"
says_err " to $most"
refused 2 vectors "$op" -o "$work/no" --shape no_such=1
says_err "'no_such'"
refused 2 vectors "$op" -o "$work/no" --regime odd
says_err one-hot
refused 2 vectors "$op" -o "$work/no" --arith exact+bf16
says_err nvfp4_mma
refused 2 vectors "$op" -o "$work/no" --input f64
says_err 'bf16, f32 or f16'
refused 2 vectors "$op" -o "$work/no" --format no_such
says_err "'no_such'"
refused 2 vectors "$op" -o "$work/no" --seed x
check "something was written" test ! -e "$work/no"
refused 3 vectors "$op" -o "$work/none/no"
# the old files are still there
cp "$work/first" "$v"
refused 2 vectors "$op" -o "$v" --regime odd
check "the file is gone" cmp "$v" "$work/first"
finish
