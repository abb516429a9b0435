#!/usr/bin/env bash
# --remote: headers read over HTTP give what the files give; a server that fails or lies is named, nothing
# is written outside the cache, and the token goes to one server only.
. "$(dirname "$0")/lib.bash"
command -v curl > /dev/null || { skip "--remote" "curl is absent"; finish; }

servers=()
# serve NAME [PORT]: serves $work/root; its port is in $port, its requests are in $work/NAME.log
serve() {
    "$helpers/http_server" "$work/root" "$work/$1.log" "${2-}" > "$work/$1.port" &
    servers+=($!)
    for _ in $(seq 100); do
        port=$(cat "$work/$1.port")
        [ -n "$port" ] && return
        sleep 0.05
    done
    echo "the server does not start" && exit 2
}
trap 'kill "${servers[@]}"; wait "${servers[@]}" 2> /dev/null; rm -rf "$work"' EXIT

unset HF_TOKEN HF_ENDPOINT HF_HUB_OFFLINE http_proxy https_proxy all_proxy ALL_PROXY HTTPS_PROXY
export HF_HUB_DOWNLOAD_TIMEOUT=2 XDG_CACHE_HOME=$work/xdg HF_HUB_CACHE=$work/hub
mkdir -p "$work/root/org"
formats=(bf16 nvfp4-ct nvfp4-modelopt fp8-tensor int4-gptq int4-ct)
for format in "${formats[@]}"; do
    make_checkpoint "root/org/$format" --preset T1 --layers 4 --format "$format" --tokenizer
done
make_checkpoint root/org/single --preset T1 --layers 4 --shard-bytes 100000000
serve other && other=$port
serve first "$other" && here=$port
at_server() { export HF_ENDPOINT=http://127.0.0.1:$here/$1; }
cache=$work/cache
clear_cache() { rm -rf "$cache"; }
commit=0123456789abcdef0123456789abcdef01234567
remote=(--remote --remote-cache "$cache")

# the folder of a model in the cache
folder() { echo "$cache/org--$1--$commit"--*; }

# --- the same as from the files ---------------------------------------------------------------------
at_server plain
for format in "${formats[@]}"; do
    here_is=$work/root/org/$format
    for command in 'info' 'info --json' 'floor --bandwidth 100' 'check --headers' 'check --headers --json --need mtp' \
        'hash --headers' 'graft --reindex --dry-run' "graft --dry-run --take mtp.* --from $work/root/org/bf16"; do
        read -ra words <<< "$command"
        "$SAMEBIT" "${words[0]}" "$here_is" "${words[@]:1}" > "$work/local" 2> /dev/null
        status=$?
        run $status "${words[0]}" "org/$format" "${words[@]:1}" "${remote[@]}"
        sed "s|$(folder "$format")|$here_is|g" "$out" > "$work/far"
        check "$command: other output than of the files" cmp "$work/local" "$work/far"
    done
done
run 0 graft org/nvfp4-ct --take 'mtp.*' --from org/bf16 --dry-run "${remote[@]}"
says 'dry run'
check "data was read" test "$(du -sb "$(folder bf16)" | cut -f 1)" -lt 400000
check "files are asked for one by one" grep -q "^plain/org/bf16/resolve/$commit/model-0000.*range=0-262143" "$work/first.log"

# a commit is not read again; the list is
lines=$(wc -l < "$work/first.log")
run 0 info org/bf16 "${remote[@]}"
says_err 'read before'
check "more than the list was asked for" test "$(wc -l < "$work/first.log")" = $((lines + 1))
run 0 info "org/bf16@$commit" "${remote[@]}"
check "a commit that is there was asked for" test "$(wc -l < "$work/first.log")" = $((lines + 1))
# what a run left that was cut off goes away
mv "$(folder bf16)" "$(folder bf16).partial"
run 0 info org/bf16 "${remote[@]}"
says_err 'MB read of'
check "the rest of an old run" test ! -e "$(folder bf16).partial"
run 0 info org/bf16 --remote
check "the usual folder" test -f "$work/xdg/samebit/remote/org--bf16--$commit"--*/config.json

# an address: of a folder, and of the page of a model
run 0 hash --headers "http://127.0.0.1:$here/plain/org/nvfp4-ct/" "${remote[@]}"
"$SAMEBIT" hash --headers "$work/root/org/nvfp4-ct" > "$work/local"
check "another address, other headers" cmp "$out" "$work/local"
run 0 info "$HF_ENDPOINT/org/bf16/tree/main" "${remote[@]}"
says_err 'read before'

# --- what is refused ---------------------------------------------------------------------------------
stub=$(folder nvfp4-ct)
refused 3 hash "$stub"
says_err 'has only the header of a file of'
refused 3 info "$stub" --laws
refused 3 run "$stub" --tokens 1
refused 3 graft "$stub" --take 'mtp.*' --from "$work/root/org/bf16" --as bf16 --dry-run
run 0 info "$stub"
refused 3 check "$stub"
says_err 'has only the header of a file of'
# numbers at the end of a stub that cannot be: the size of the header, of the file, the number of pieces
file=$(ls "$stub"/*.safetensors | head -n 1)
for at in 40 32 24; do
    cp "$file" "$work/damaged.safetensors"
    printf '\377\377\377\377\377\377\377\177' |
        dd of="$work/damaged.safetensors" bs=1 seek=$(($(stat -c %s "$file") - at)) conv=notrunc status=none
    refused 3 hash --headers "$work/damaged.safetensors"
    says_err 'a damaged stub'
done
# a tensor in two files, whose bytes are not here
cp -r "$work/root/org/bf16" "$work/root/org/twin"
cp "$work/root/org/bf16/model-00001-of-"* "$work/root/org/twin/model-extra.safetensors"
run 1 check org/twin --headers "${remote[@]}"
says 'with bytes that are not here'
for words in 'check org/bf16' 'hash org/bf16' 'info org/bf16 --laws' 'graft org/bf16 --reindex -o x'; do
    # shellcheck disable=SC2086
    refused 2 $words --remote
done
refused 2 info org/bf16 --remote-cache "$cache"
refused 2 info 'what is this?' --remote
refused 2 info ftp://127.0.0.1/x --remote
HF_ENDPOINT=file:///tmp refused 2 info org/bf16 --remote
HF_HUB_OFFLINE=1 refused 2 info org/bf16 --remote
HF_TOKEN=$'a\nb' refused 2 info org/bf16 --remote
mkdir "$work/bin"
printf '#!/bin/sh\nPATH=%q exec %q "$@"\n' "$work/bin" "$(realpath "$SAMEBIT")" > "$work/samebit"
chmod +x "$work/samebit"
SAMEBIT=$work/samebit refused 3 info org/int4-ct --remote --remote-cache "$work/none"
says_err 'curl: this program is not installed'

# --- values of a sample -------------------------------------------------------------------------------
clear_cache
at_server plain
for format in "${formats[@]}"; do
    here_is=$work/root/org/$format
    for command in 'check --sample 12' 'check --sample 40 --json'; do
        read -ra words <<< "$command"
        "$SAMEBIT" "${words[0]}" "$here_is" "${words[@]:1}" > "$work/local" 2> /dev/null
        status=$?
        run $status "${words[0]}" "org/$format" "${words[@]:1}" "${remote[@]}"
        sed "s|$(folder "$format")|$here_is|g" "$out" > "$work/far"
        check "$format, $command: other output than of the files" cmp "$work/local" "$work/far"
    done
done
run 0 check org/bf16 --sample 12 "${remote[@]}"
says 'SAMPLE only the values of 12 of '
says 'were not looked at'
says_err ' 0.0 MB of values read'
check "all of the shards was read" test "$(du -sb "$(folder bf16)" | cut -f 1)" -lt "$(($(du -sb "$work/root/org/bf16" | cut -f 1) / 2))"
run 0 check org/bf16 --headers "${remote[@]}"
# plant NAME UNIT: a copy of bf16 with a NaN at the start of a layer's weight, or of a tensor
plant() {
    local file header at
    rm -rf "$work/root/org/$1" && cp -r "$work/root/org/bf16" "$work/root/org/$1"
    for file in "$work/root/org/$1"/*.safetensors; do
        header=$(od -An -tu8 -N8 "$file")
        at=$(head -c $((header + 8)) "$file" | tail -c +9 | grep -oE "\"${2//./[.]}([.]weight)?\":[^}]*" |
            sed 's/.*"data_offsets":\[\([0-9]*\),.*/\1/')
        [ -z "$at" ] || printf '\300\177' | dd of="$file" bs=1 seek=$((8 + header + at)) conv=notrunc status=none
    done
    check "nothing was planted in $2" bash -c "! diff -rq '$work/root/org/bf16' '$work/root/org/$1' > /dev/null"
}
# a fault in a layer of the sample is found and named; one in another layer is not looked at, and the report says so
run 0 check "$work/root/org/bf16" --sample 12 --json
chosen=$(value sample.read.3)
at sample.units 12
outside=$("$SAMEBIT" check "$work/root/org/bf16" --sample 12 --verbose | sed -n 's/^  not looked at \(.*self_attn.*_proj\)$/\1/p' | head -n 1)
plant within "$chosen"
run 1 check org/within --sample 12 "${remote[@]}"
says "$chosen"
plant without "$outside"
run 0 check org/without --sample 12 --verbose "${remote[@]}"
says "not looked at $outside"
run 1 check "$work/root/org/without"
# servers that fail while values are read: the shards stay as they were
for mode in 'stall the server is silent' 'cut (curl 18)' 'badrange , expected bytes' 'changes changed while it was read'; do
    clear_cache
    at_server plain
    run 0 info org/bf16 "${remote[@]}"
    sed -i "s|/plain/|/${mode%% *}/|" "$(folder bf16)/.samebit-remote.json"
    cp -r "$(folder bf16)" "$work/before"
    run 3 check "org/bf16@$commit" --sample 12 "${remote[@]}"
    says_err "${mode#* }"
    check "${mode%% *}: the stubs are others" diff -r "$(folder bf16)" "$work/before"
    rm -rf "$work/before"
done
clear_cache
at_server plain

# --- servers that fail or lie -------------------------------------------------------------------------
# fails MODE TEXT: info of a server of this mode exits 3 with the text, and leaves nothing
fails() {
    clear_cache
    at_server "$1"
    refused 3 info "${3-http://127.0.0.1:$here/$1/org/bf16}" "${remote[@]}"
    says_err "$2"
    check "$1: something was left in the cache" test -z "$(ls -A "$cache" 2> /dev/null)"
}
clear_cache
run 0 info "http://127.0.0.1:$here/noranges/org/bf16" "${remote[@]}"
head -c 9000000 /dev/zero > "$work/zeros"
mkdir "$work/root/org/large"
cp "$work/root/org/bf16/config.json" "$work/root/org/large"
printf '\0\1\0\0\0\0\0\0' | cat - "$work/zeros" > "$work/root/org/large/model.safetensors"
fails noranges 'does not send ranges (HTTP 200 instead of 206)' "http://127.0.0.1:$here/noranges/org/large"
fails badrange ', expected bytes 0 to 262143'
fails extra 'bytes were received'
fails cut '(curl 18)'
fails stall 'the server is silent'
fails changes 'changed while it was read: its ETag was'
fails tofile 'HTTP 302 redirects to "file:///etc/passwd", expected an http or https address'
fails loop 'more than 5 redirects'
check "other than six requests" test "$(grep -c '^loop/' "$work/first.log")" = 6
fails down 'HTTP 503, after 4 attempts'
fails garbage '(curl 1)'
fails plain 'HTTP 404: there is no such file' org/none
fails badcommit 'no "sha" of 40 hexadecimal digits' org/bf16
check "something was written outside" test ! -e "$work/outside"
# a longer file than there is: the header says where its data ends
clear_cache
run 3 info "http://127.0.0.1:$here/badsize/org/single" "${remote[@]}"
says_err 'follow the last tensor, expected the end of the file'
# names outside the folder are no files of it
clear_cache
at_server badnames
run 0 check org/bf16 --headers "${remote[@]}"
check "a name outside was asked for" bash -c "! grep -q evil '$work/first.log'"
check "a file outside was written" bash -c "! find '$work' -name '*evil*' | grep -q ."
# a header beyond the file
printf '\377\377\377\4\0\0\0\0' | cat - "$work/zeros" > "$work/root/org/large/model.safetensors"
fails plain 'header length at offset 0 is 83886079, expected at most 9000000' "http://127.0.0.1:$here/plain/org/large"
# an index that leaves the folder
mkdir "$work/root/org/index"
cp "$work/root/org/bf16/config.json" "$work/root/org/index"
echo '{"weight_map": {"a": "../../x.safetensors"}}' > "$work/root/org/index/model.safetensors.index.json"
clear_cache
at_server token
refused 3 info "http://127.0.0.1:$here/plain/org/index" "${remote[@]}"
says_err "expected a plain file name without '/'"
# no server
fails plain '(curl 7)' http://127.0.0.1:1/plain/org/bf16
# two answers that may pass
clear_cache
serve busy && here=$port && at_server busy
run 0 info org/bf16 "${remote[@]}"
check "not three requests for the list" test "$(grep -c 'api/models' "$work/busy.log")" = 3

# --- the token ----------------------------------------------------------------------------------------
serve token "$other" && here=$port
fails token 'HTTP 401: not public, or it does not exist: set HF_TOKEN' org/bf16
export HF_TOKEN=secret
at_server token
run 0 info org/bf16 "${remote[@]}"
clear_cache
at_server near
run 0 info org/bf16 "${remote[@]}"
check "the token does not stay with its server" grep -q '^token/org/bf16/resolve.*auth=Bearer secret' "$work/token.log"
clear_cache
at_server away
: > "$work/other.log"
run 0 info org/bf16 "${remote[@]}"
check "the other server was not asked" grep -q '^plain/org/bf16/resolve/.*auth= ' "$work/other.log"
check "the token went to another server" bash -c "! grep -q secret '$work/other.log'"
check "the token was not sent to the first" grep -q '^away/.*auth=Bearer secret' "$work/token.log"
clear_cache
run 3 info "http://127.0.0.1:$other/token/org/bf16" "${remote[@]}"
says_err 'the token in HF_TOKEN is not for this server, and was not sent'
check "the token went to the server of an address" bash -c "! grep -q secret '$work/other.log'"
HF_TOKEN=wrong fails token 'the token in HF_TOKEN gives no access to it' org/bf16
# a program in place of curl sees no token among its arguments
printf '#!/bin/sh\necho "$@" >> %q/arguments\nexec %q "$@"\n' "$work" "$(command -v curl)" > "$work/bin/curl"
chmod +x "$work/bin/curl"
at_server token
clear_cache
PATH=$work/bin:$PATH run 0 info org/bf16 "${remote[@]}"
check "the token is an argument of curl" bash -c "test -s '$work/arguments' && ! grep -q secret '$work/arguments'"

finish
