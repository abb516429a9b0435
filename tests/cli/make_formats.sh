#!/usr/bin/env bash
# make --format: every quantized format is written with its configuration files, with the same bytes for any number of
# threads. Options that a format does not have are refused.
. "$(dirname "$0")/lib.bash"

# the files beside config.json, by format
formats=$("$SAMEBIT" make --list | sed -n '/^--format/,/^$/p' | awk 'NR > 1 && NF { print $1 }' | grep -vxE 'bf16|f16|f32')
check "fewer than 16 quantized formats" test "$(wc -w <<< "$formats")" -ge 21
run 0 make "$work/bf16" --preset T4
for format in $formats; do
    run 0 make "$work/$format" --preset T4 --format "$format"
    says "wrote $work/$format"
    check "$format: no quantization_config" grep -q '"quantization_config": {' "$work/$format/config.json"
    case $format in
        fp8-tensor | nvfp4-modelopt* | nvidia-m*) files=hf_quant_config.json ;;
        *gptq) files=quantize_config.json ;;
        int4-autoround | int4-fp8-hybrid | int4-int8-head) files=quantization_config.json ;;
        *) files= ;;
    esac
    beside=$(cd "$work/$format" && ls ./*.json | sed 's|^\./||' |
        grep -vxE 'config.json|model.safetensors.index.json')
    check "$format: '$beside' beside config.json, expected '$files'" test "$beside" = "$files"
done
check "bf16 declares a quantization" bash -c "! grep -q quantization_config $work/bf16/config.json"

# every pair of formats differs, except the hybrids: this dense model has no shared expert, and its head is tied
sums=$(for format in $formats; do
    [[ $format =~ ^int4-(fp8-hybrid|int8-head)$ ]] || cat "$work/$format"/*.safetensors | cksum
done)
check "two formats have the same tensors" test -z "$(sort <<< "$sums" | uniq -d)"

# the same bytes on one thread and on three
for format in nvfp4-ct fp8-block int4-gptq nvidia-mix; do
    OMP_NUM_THREADS=3 "$SAMEBIT" make "$work/a" --preset T1 --layers 4 --format $format --replace > /dev/null
    SAMEBIT_ISA=scalar OMP_NUM_THREADS=1 "$SAMEBIT" make "$work/b" --preset T1 --layers 4 --format $format --replace \
        > /dev/null
    check "$format: threads change bytes" diff -r "$work/a" "$work/b"
    rm -r "$work/a" "$work/b"
done

# AutoRound excludes routers by a pattern, and the router of the MTP head by its name, as in golden/quant
run 0 make "$work/router" --preset T1 --layers 4 --format int4-autoround
for key in '".*model\\\\.layers\\\\.1\\\\.mlp\\\\.gate.*"' '"mtp.layers.0.mlp.gate"'; do
    for folder in "$work/router" golden/quant/autoround-gptq-mtp; do
        check "no $key in $folder" grep -qF "$(printf %b "$key")" "$folder/config.json"
    done
done
check "routers are named, too" bash -c "! grep -qF '\"model.layers.1.mlp.gate\"' $work/router/config.json"
rm -r "$work/router"

# a replaced folder declares nothing of its old content
for format in bf16 int4-gptq int4-autoround nvidia-mix; do
    run 0 make "$work/over" --preset T4 --format nvidia-mix --replace
    echo mine > "$work/over/notes.txt"
    run 0 make "$work/over" --preset T4 --format $format --replace --json
    at format $format
    check "a file of somebody else is gone" grep -q mine "$work/over/notes.txt"
    rm "$work/over/notes.txt"
    check "$format over nvidia-mix is another folder" diff -r "$work/$format" "$work/over"
done
rm -r "$work/over"

# --help lists the formats
run 0 make --help
for format in bf16 f16 f32 $formats; do
    check "$format is not in the help" grep -q "^  $format: [^ ]" "$out"
done

# options that change bytes, and those that a format does not have
differs() { # FORMAT OPTION...
    local format=$1
    shift
    run 0 make "$work/other" --preset T4 --format "$format" --replace "$@"
    check "$format: $* changes no byte" test \
        "$(cat "$work/other"/* | cksum)" != "$(cat "$work/$format"/* | cksum)"
    rm -r "$work/other"
}
differs fp8-block --scale-rule reciprocal
differs nvfp4-modelopt --scale-rule four-over-six
differs int4-gptq --scale-rule signed-max
differs int4-ct --group-size 32
differs nvfp4-ct --kv-scales
differs nvfp4-ct --seed 43
differs nvfp4-ct --no-mtp
differs nvfp4-ct --layout vl
refused 2 make "$work/none" --preset T4 --format nvfp4-ct --scale-rule rtn
says_err 'no scale rule "rtn"'
refused 2 make "$work/none" --preset T4 --format bf16 --kv-scales
refused 2 make "$work/none" --preset T4 --format nvfp4-ct --group-size 32
refused 2 make "$work/none" --preset T4 --format int4-ct --group-size 5000
refused 2 make "$work/none" --preset T1 --format nvfp4-ct --experts fused
says_err 'one tensor per expert'
refused 2 make "$work/none" --preset T6 --format int4-ct
says_err 'in_proj_qkv.weight has 320 columns'
refused 2 make "$work/none" --preset T4 --format nvfp4
says_err nvfp4-modelopt
check "a refused folder was made" test ! -e "$work/none"
finish
