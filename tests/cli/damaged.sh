#!/usr/bin/env bash
# A damaged checkpoint is refused by every command: exit 3, one clear line, nothing on stdout.
. "$(dirname "$0")/lib.bash"

make_checkpoint sound --preset T4
make_checkpoint single --preset T4 --shard-bytes 1000000000
bad=$work/bad

# fresh [FOLDER]: a new copy to damage
fresh() { rm -rf "$bad"; cp -r "$work/${1:-sound}" "$bad"; }
# all TEXT...: every command that opens a checkpoint refuses this one, with a line that has every TEXT
all() {
    local text
    for command in "info $bad" "info $bad --json" "run $bad --tokens 1 -n 1" \
        "run $bad --tokens 1 -n 1 --json" "golden write $work/g $bad --tokens 1"; do
        # shellcheck disable=SC2086
        refused 3 $command
        for text in "$@"; do says_err "$text"; done
    done
    check "a golden file was written" test ! -e "$work/g/golden.json"
}
shard=model-00002-of-00003.safetensors

rm -rf "$bad"
all "$bad"
mkdir "$bad"
all "$bad"
fresh && rm "$bad/config.json" && all config.json
fresh && echo '{' > "$bad/config.json" && all config.json
fresh && sed -i 's/"model_type": "qwen3_5_text"/"model_type": "llama"/; s/"qwen3_5"/"llama"/' "$bad/config.json" && all llama
fresh && sed -i 's/"hidden_size": 128/"hidden_size": 256/' "$bad/config.json" && all embed_tokens 256
fresh && sed -i 's/"hidden_size": 128/"hidden_size": "128"/' "$bad/config.json" && all hidden_size
fresh && sed -i 's/"num_hidden_layers": 4/"num_hidden_layers": 3/' "$bad/config.json" && all layer
fresh && rm "$bad/$shard" && all "$shard"
fresh && : > "$bad/$shard" && all "$shard"
fresh && truncate -s -1 "$bad/$shard" && all "$shard"
fresh && printf x >> "$bad/$shard" && all "$shard"
fresh && printf '\377\377\377\377' | dd of="$bad/$shard" bs=1 seek=4 conv=notrunc status=none && all "$shard"
fresh && cp "$bad/$shard" "$bad/model-00004-of-00004.safetensors" && all model-00004
fresh && sed -i "s/$shard/model-00001-of-00003.safetensors/" "$bad/model.safetensors.index.json" && all model
fresh && rm "$bad/model.safetensors.index.json" && all
fresh single && sed -i 's/model\.norm\.weight/model.nurm.weight/' "$bad/model.safetensors" && all model.norm.weight missing
fresh single && sed -i 's/"BF16","shape":\[128\]/"I16" ,"shape":[128]/' "$bad/model.safetensors" && all I16
fresh single && sed -i 's/"BF16"/"BF61"/' "$bad/model.safetensors" && all BF61

# a name with a line feed does not make two lines
refused 3 info "$work/no
such"

# weights that are NaN: they are found when they are used
fresh single
size=$(wc -c < "$bad/model.safetensors")
printf '\377\177%.0s' $(seq 1000) | dd of="$bad/model.safetensors" bs=1 seek=$((size / 2)) conv=notrunc status=none
run 0 info "$bad"
refused 3 run "$bad" --tokens 1,2,3 -n 1
says_err NaN
says_err row
says_err column
finish
