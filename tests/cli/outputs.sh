#!/usr/bin/env bash
# Outputs: devices and pipes are written directly, links are followed, and no command overwrites its own input.
. "$(dirname "$0")/lib.bash"

SAMEBIT=$(realpath "$SAMEBIT") helpers=$(realpath "$helpers")
make_checkpoint t4 --preset T4
t4=$work/t4
few=(--only 13 --quiet)
unchanged() { diff -r "$t4" "$work/kept" > /dev/null && [ "$(ls "$t4")" = "$(ls "$work/kept")" ]; }
cp -r "$t4" "$work/kept"
run 0 check "$t4" "${few[@]}" --junit "$work/plain.xml"
is_report() { cmp -s "$1" "$work/plain.xml"; }

# --- pipes and devices, none of them the machine's ---

mkfifo "$work/pipe"
timeout 20 cat "$work/pipe" > "$work/read" &
reader=$!
run 0 check "$t4" "${few[@]}" --junit "$work/pipe"
check "the pipe became something else" test -p "$work/pipe"
[ -p "$work/pipe" ] || kill $reader
wait $reader 2> /dev/null
check "not what the reader of a pipe should get" is_report "$work/read"
if mknod "$work/null" c 1 3 2> /dev/null && : > "$work/null"; then
    run 0 check "$t4" "${few[@]}" --junit "$work/null"
    check "the device became something else" test -c "$work/null"
    run 0 run "$t4" --tokens 1 --state-out "$work/null"
    check "the device became something else" test -c "$work/null"
else
    skip devices "mknod is not allowed here"
fi
if mknod "$work/full" c 1 7 2> /dev/null && ! (echo > "$work/full") 2> /dev/null; then
    run 3 check "$t4" "${few[@]}" --junit "$work/full"
    says_err 'cannot write'
    check "the device became something else" test -c "$work/full"
else
    skip "a full device" "mknod is not allowed here"
fi

# --- stdout by name: what was printed before stays ---

last="check T4 --junit /proc/self/fd/1"
(echo first; "$SAMEBIT" check "$t4" "${few[@]}" --junit /proc/self/fd/1) > "$out" 2> "$err"
check "what stood there before is gone" grep -qx first "$out"
says '<testsuite'
"$SAMEBIT" check "$t4" "${few[@]}" --junit /proc/self/fd/1 2> "$err" | cat > "$out"
says '<testsuite'
(echo first; "$SAMEBIT" check "$t4" "${few[@]}" --junit "$out") > "$out" 2> "$err"
check "what stood there before is gone" grep -qx first "$out"
says '<testsuite'
"$SAMEBIT" check "$t4" "${few[@]}" --junit /dev/fd/5 5> "$work/five" > "$out" 2> "$err"
check "not what stands behind a descriptor" is_report "$work/five"

# --- links ---

mkdir "$work/there" "$work/here"
echo old > "$work/there/a.xml"
ln -s ../there/a.xml "$work/here/a.xml"
ln -s a.xml "$work/here/twice.xml"
ln -s ../there/new.xml "$work/here/new.xml"
ln -s round.xml "$work/here/round.xml"
for name in a twice new; do
    run 0 check "$t4" "${few[@]}" --junit "$work/here/$name.xml"
    check "the link $name was replaced" test -L "$work/here/$name.xml"
    check "not written where $name leads" is_report "$work/here/$name.xml"
    rm -f "$work/there/"*
done
check "something is left" test -z "$(ls "$work/there")"
run 3 check "$t4" "${few[@]}" --junit "$work/here/round.xml"
says_err links

# --- what a command reads ---

ln -s t4/config.json "$work/config"
ln "$t4/config.json" "$work/hard"
cd "$work" || exit 2
for path in t4/config.json ./t4/../t4/config.json config hard "$t4/config.json" t4; do
    refused 2 check t4 "${few[@]}" --junit "$path"
    says_err 'this command'
done
refused 2 state save t4 --tokens 1 -o t4/config.json
refused 2 run t4 --tokens 1 --state-out t4/model.safetensors.index.json
refused 2 run t4 --tokens 1 --logits t4/config.json
refused 2 diff t4 --engine sim:fla --tokens 1 --report t4/config.json
echo 1,2 > ids
refused 2 run t4 --tokens-file ids --logits ids
echo 'samebit-waivers 1' > waivers
refused 2 check t4 "${few[@]}" --waivers waivers --junit waivers
refused 2 run t4 --tokens 1 --force-accept @ids --draft 1 --logits ids
check "an input was written" unchanged
check "an input was written" grep -qx 1,2 ids
refused 2 run t4 --tokens 1 --logits same --state-out ./same
says_err 'would overwrite the other'
run 0 run t4 --tokens 1 --state-out state
refused 2 run t4 --state-in state --tokens 1 --state-out state
# a report beside the shards is no input, and neither is a file that does not exist yet
run 0 check t4 "${few[@]}" --junit t4/report.xml
run 0 check t4 "${few[@]}" --junit t4/report.xml
rm t4/report.xml
run 0 run t4 --tokens 1 --logits new.npy
run 0 run t4 --tokens 1 --logits new.npy
check "a file was left behind" test -z "$(find . -name '*.tmp-*')"
finish
