#!/usr/bin/env bash
# golden: a recorded run repeats. A difference is named by its position; another checkpoint or another specification is
# no difference but refused.
. "$(dirname "$0")/lib.bash"

make_checkpoint t4 --preset T4
make_checkpoint t4b --preset T4 --seed 7
t4=$work/t4 dir=$work/golden
printf '1,2,3\n10,20\n' > "$work/prompts"

run 0 golden write "$dir" "$t4" --tokens-file "$work/prompts" -n 4 --set act=bf16
says "wrote $dir/golden.json"
golden=$dir/golden.json
cp "$golden" "$out"
at spec 2
at command golden
at request.generate 4
at request.profile exact
at request.set '["act=bf16"]'
at request.prompts '[[1,2,3],[10,20]]'
at sequences.length 2
at sequences.1.tokens.length 4
check "no checkpoint digest" grep -qE '^[0-9a-f]{32}$' <<< "$(value checkpoint)"
digest=$(value sequences.1.logits_digest.2)
state=$(value sequences.0.state_digest.target)
last_token=$(value sequences.0.tokens.3)
cp "$golden" "$work/sound.json"
run 0 run "$t4" --tokens 10,20 -n 4 --set act=bf16 --json
at logits_digest.2 "$digest"

verify() { "$1" "$2" golden verify "$dir" "$t4"; }
verify run 0
says "IDENTICAL $golden"
run 0 golden verify "$dir" "$t4" --threads 1
SAMEBIT_ISA=exact verify run 0
check "verify changed the file" cmp "$golden" "$work/sound.json"
run 0 golden write "$work/again" "$t4" --tokens-file "$work/prompts" -n 4 --set act=bf16
check "written twice, other bytes" cmp "$work/again/golden.json" "$golden"

# edit SED: makes a changed copy of the sound file
edit() {
    sed "$1" "$work/sound.json" > "$golden"
    check "the edit changed nothing: $1" test "$(cksum < "$golden")" != "$(cksum < "$work/sound.json")"
}
flip() { if [ "${1:0:1}" = 0 ]; then echo "1${1:1}"; else echo "0${1:1}"; fi; }

# differences: exit 1, and the message says where
edit "s/$digest/$(flip "$digest")/"
verify refused 1
says_err 'sequence 1'
says_err 'position 2'
says_err "$digest"
says_err "$(flip "$digest")"
edit "s/$state/$(flip "$state")/"
verify refused 1
says_err 'sequence 0'
says_err 'state digest'
# the last number of the first list of tokens
sed "0,/^ *$last_token\$/s/^\( *\)$last_token\$/\1$(((last_token + 1) % 384))/" "$work/sound.json" > "$golden"
if cmp -s "$golden" "$work/sound.json"; then # the layout of the file is none of one number per line
    sed "0,/$last_token *\]/s/$last_token\( *\]\)/$(((last_token + 1) % 384))\1/" "$work/sound.json" > "$golden"
fi
verify refused 1
says_err tokens
says_err 'position 3'
edit 's/"generate": 4/"generate": 3/'
verify refused 1
says_err 'position 3'
says_err absent
edit 's/act=bf16/act=f16/'
verify refused 1
says_err 'position 0'

# a file from before there were drafts and sampling: greedy, and without the head
older() { sed -e '/"sampling": {/,/}/d' -e 's/"mtp": "[0-9a-f]*"/"mtp": null/' "$work/sound.json" > "$golden"; }
older
check "the older form has a digest of the head" test "$(grep -c '"mtp": null' "$golden")" = 2
verify run 0
sed -i "s/$state/$(flip "$state")/" "$golden"
verify refused 1
# null is no wildcard in a current file
edit 's/"mtp": "[0-9a-f]*"/"mtp": null/'
verify refused 1
says_err mtp

# another checkpoint or specification: exit 3
cp "$work/sound.json" "$golden"
refused 3 golden verify "$dir" "$work/t4b"
says_err "$work/t4b"
says_err "$("$helpers/json_at" checkpoint < "$golden")"
edit 's/"spec": 2/"spec": 3/'
verify refused 3
says_err 'specification 3'
edit 's/"spec": 2/"spec": "2"/'
verify refused 3
edit 's/act=bf16/act=fp7/'
verify refused 3
says_err "fp7"
edit 's/"profile": "exact"/"profile": "nobody"/'
verify refused 3
edit 's/"prompts"/"questions"/'
verify refused 3
edit 's/"generate": 4/"generate": -4/'
verify refused 3
edit 's/^ "spec": 2/ "spec": 2, "spec": 2/'
verify refused 3
head -c 100 "$work/sound.json" > "$golden"
verify refused 3
says_err "$golden"
rm "$golden"
verify refused 3
says_err "$golden"

# a prompt that the model refuses leaves no golden file
refused 2 golden write "$work/none" "$t4" --tokens 384
check "a file was left" test ! -e "$work/none/golden.json"
finish
