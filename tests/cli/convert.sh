#!/usr/bin/env bash
# convert: between the dialects of NVFP4 and back, to the byte; a checkpoint that cannot be converted is refused as a
# whole.
. "$(dirname "$0")/lib.bash"

for pair in nvfp4-ct:nvfp4-modelopt nvfp4a16-ct:nvfp4-modelopt nvfp4-modelopt:nvfp4-ct nvidia-mix:nvfp4-ct; do
    format=${pair%:*} to=${pair#*:}
    back=nvfp4-ct
    [ $to = nvfp4-modelopt ] || back=nvfp4-modelopt
    rm -rf "$work/a" "$work/b" "$work/c"
    make_checkpoint a --preset T1 --layers 4 --format $format
    echo '{}' > "$work/a/tokenizer.json"
    "$SAMEBIT" hash "$work/a" --values > "$work/manifest"
    run 0 convert "$work/a" "$work/b" --to $to
    says "layers as $to"
    says '0 restored from their origins'
    says 'the reciprocal of the reciprocal differs from the original'
    run 0 hash "$work/b" --values --verify "$work/manifest"
    run 1 hash "$work/b" --verify "$work/manifest"
    run 0 info "$work/b" --json
    check "$to has no layers in b" grep -q "\"$to\"" "$out"
    run 0 convert "$work/b" "$work/c" --to $back --json
    at command convert
    at to $back
    at copied_files 1
    same "scalars restored" "$(value scalars.0.restored)" "$(value scalars.0.count)"
    run 0 hash "$work/c" --verify "$work/manifest"
    for file in "$work"/a/*.safetensors "$work"/a/tokenizer.json; do
        check "$format: another $(basename "$file")" cmp "$file" "$work/c/$(basename "$file")"
    done
    [[ $format = nvfp4-ct || $format = nvidia-mix ]] || continue
    # both folders can be run, and the one converted back gives the same result
    run 0 run "$work/a" --tokens 1,2,3 -n 2
    cp "$out" "$work/tokens"
    run 0 run "$work/b" --tokens 1,2,3 -n 2
    run 0 run "$work/c" --tokens 1,2,3 -n 2
    check "$format: another result after there and back" cmp "$out" "$work/tokens"
done

# folders of real producers: after the way back, the tensors are the same bytes and the declarations have the same keys
for name in ct-nvfp4:nvfp4-modelopt:nvfp4-ct ct-nvfp4a16:nvfp4-modelopt:nvfp4-ct modelopt-nvfp4:nvfp4-ct:nvfp4-modelopt; do
    IFS=: read -r name to back <<< "$name"
    run 0 convert "golden/quant/$name" "$work/there" --to "$to"
    run 0 info "$work/there" --json
    at disagreements.count 0
    at declared.notes '[]'
    run 0 convert "$work/there" "$work/again" --to "$back"
    check "$name: other tensors" cmp "golden/quant/$name/model.safetensors" "$work/again/model.safetensors"
    for key in config_groups quant_method; do
        same "$name: $key" "$("$helpers/json_at" quantization_config.$key < "golden/quant/$name/config.json")" \
            "$("$helpers/json_at" quantization_config.$key < "$work/again/config.json")"
    done
    rm -r "$work/there" "$work/again"
done

refused 2 convert "$work/b" "$work/c" --to nvfp4-ct
says_err 'exists'
run 0 convert "$work/b" "$work/c" --to nvfp4-modelopt --replace
before=$(cat "$work"/b/* | cksum)
refused 2 convert "$work/b" "$work/b/" --to nvfp4-modelopt --replace
refused 2 convert "$work/b" "$work/d" --to nvfp4
refused 2 convert "$work/b" "$work/d"
refused 2 convert "$work/b" --to nvfp4-ct
refused 3 convert "$work/b" "$work/d" --to nvfp4-ct
says_err 'has no NVFP4 layer in the dialect'
same "the source changed" "$before" "$(cat "$work"/b/* | cksum)"
make_checkpoint bf16 --preset T1
make_checkpoint int4 --preset T1 --format int4-ct
for folder in bf16 int4; do
    refused 3 convert "$work/$folder" "$work/d" --to nvfp4-ct
done
says_err int-ct
refused 3 convert "$work/no-such-folder" "$work/d" --to nvfp4-ct
# an interrupted conversion leaves only its partial folder; with --replace also the old folder
for left in partial replaced; do
    mkdir "$work/d.$left"
    refused 2 convert "$work/b" "$work/d" --to nvfp4-modelopt
    says_err "$work/d.$left: exists"
    rmdir "$work/d.$left"
done
check "something was left" test ! -e "$work/d" -a ! -e "$work/d.partial"

# a folder in the source is not copied, with a message; a file is copied, also through a link
cp -r "$work/b" "$work/sub"
mkdir "$work/sub/original"
echo there > "$work/there"
ln -s "$work/there" "$work/sub/link"
run 0 convert "$work/sub" "$work/sub/out" --to nvfp4-modelopt
says 'left out: original/, a folder'
check "the result is told as a folder of the source" test "$(grep -c 'left out' "$out")" = 1
check "a link is no file" cmp "$work/there" "$work/sub/out/link"
check "the link is a link" test ! -L "$work/sub/out/link"
run 0 convert "$work/sub/out" "$work/back" --to nvfp4-ct --json
at left_out_folders '[]'
rm -r "$work/sub" "$work/back"

# nothing is written half: a disk that is full, or a file that is too large
cp -r "$work/b" "$work/kept"
last='convert (files of at most 600 kB)'
(
    trap '' XFSZ
    ulimit -f 600
    "$SAMEBIT" convert "$work/b" "$work/full" --to nvfp4-modelopt
    first=$?
    "$SAMEBIT" convert "$work/b" "$work/kept" --to nvfp4-modelopt --replace
    echo $first $?
) > "$out" 2> "$err"
says '3 3'
says_err 'File too large'
check "something was left" test ! -e "$work/full" -a ! -e "$work/full.partial" -a ! -e "$work/kept.partial"
check "what was to be replaced has changed" diff -r "$work/b" "$work/kept"

# a recorded origin that no longer fits, because one hexadecimal digit of the metadata was changed
cp -r "$work/b" "$work/d"
file=$(grep -l 'samebit.origin' "$work"/d/*.safetensors | head -1)
sed -i 's/\(samebit\.origin\.[^"]*":"....\)./\1x/' "$file"
refused 3 convert "$work/d" "$work/e" --to nvfp4-modelopt
says_err 'samebit.origin.'
check "something was left" test ! -e "$work/e" -a ! -e "$work/e.partial"
finish
