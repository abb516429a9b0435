#!/usr/bin/env bash
# check: options, exit statuses, the report as text, JSON and JUnit, waivers, the cache of the hub, missing files of the
# original. Other tests cover the findings of single checks.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/page.bash"

make_checkpoint a --preset T4 --recipe plain
make_checkpoint other --preset T4 --recipe plain --seed 43
make_checkpoint q --preset T4 --recipe plain --format nvfp4-ct
a=$work/a other=$work/other q=$work/q
stranger=$work/stranger
cp -r "$other" "$stranger"
# $other differs from $a in one file alone; the other files show that it is the original
for file in "$a"/model-*.safetensors; do
    case $file in *-00002-of-*) ;; *) cp "$file" "$other/" ;; esac
done
lacks() { check "stdout has: $1" bash -c '! grep -qF -- "$1" "$2"' _ "$1" "$out"; }
xml() { check "not well-formed: $1" well_formed "$1"; }
well_formed() {
    if command -v xmllint > /dev/null; then
        xmllint --noout "$1"
    elif command -v python3 > /dev/null; then
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1"
    fi
}
count_xml() { check "$2 stands not $3 times in $1" test "$(grep -c -- "$2" "$1")" = "$3"; }

# a sound folder
run 0 check "$a"
says "$a: "
says 'SKIPPED (needs --against ORIGINAL): 14 untouched'
says "UNSEEN (only --against or the hashes of the hub show these faults): exchanged experts"
check "the verdict is not the last line" grep -q "^PASS $a: 0 FATAL, 0 ERROR, " <(tail -n 1 "$out")
check "something on stderr" test ! -s "$err"
cp "$out" "$work/text"
for threads in 1 3; do
    run 0 check "$a" --threads $threads
    check "threads change the report" cmp "$out" "$work/text"
done
for io in auto map pread direct; do
    run 0 check "$a" --io $io
    check "the way of reading changes the report" cmp "$out" "$work/text"
done
run 0 check "$a/" --quiet
check "--quiet is more than a line" test "$(wc -l < "$out")" = 1
run 0 check "$a" --verbose
says 'passed 1 container: '
says 'not applicable 15 fp4-scale-bytes: no layer is stored in four-bit floats'
run 0 check "$a" --json
at spec 2
at command check
at checkpoint "$a"
at against null
at verdict PASS
at counts.fatal 0
at counts.error 0
at loaded null
at skipped.0.check 14
at skipped.0.id untouched
at skipped.0.why 'needs --against ORIGINAL'
same "mtp_verdict and mtp.verdict" "$(value mtp_verdict)" "$(value mtp.verdict)"
for part in 0 1 2 3 4 5 6 7; do # of a sound head, all that the configuration implies is there
    same "modules of part $part" "$(value mtp.parts.$part.modules)" "$(value mtp.parts.$part.expected)"
done
check "a part of the head is expected" test "$(value mtp.parts.0.expected)" = 1
run 0 check "$q"
says 'SKIPPED (needs --against ORIGINAL): 14 untouched 23 fp4-nearest 24 fp4-distance 25 fp4-scales-again'
run 0 check "$q" --against "$a" --json
at verdict PASS
at against.path "$a"
at against.missing_files '[]'
at against.stranger false
at skipped '[]'

# only headers: the checks of bytes are named as skipped
run 0 check "$a" --headers
says 'SKIPPED (needs the values, but --headers was given): 12 finite 13 duplicates'
check "headers promise nothing about the payload" eval '! grep -q UNSEEN "$out"'
run 0 check "$a" --headers --json
at skipped.0.id finite
at skipped.0.why 'needs the values, but --headers was given'

# only some of the checks
checks=$(grep -c '^SB_CHECK(' tools/check/read/checks.def)
run 0 check --list
check "not a line per check" test "$(wc -l < "$out")" = "$checks"
says '23 fp4-nearest         ERROR original every NVFP4 code is a nearest code'
run 0 check --list --json
at checks.length "$checks"
at checks.22.id fp4-nearest
at checks.13.needs original
run 0 check "$a" --only 1,index,12 --json
at checks.length 3
at looked '[1,2,12]'
at skipped.length $((checks - 3))
at skipped.0.why 'not wanted'
run 0 check "$a" --skip 1,index --json
at skipped.0.id container
at skipped.1.id index
run 0 check "$a" --only 1,2 --skip 2 --json
at checks.length 1
# what was not looked at is not called ok
run 0 check "$a" --only duplicates --verbose
says 'unknown scales: not checked: check 15 fp4-scale-bytes was not wanted'
says 'MTP FILE-OK: nothing is wrong with the head as far as it was looked at'
refused 2 check "$a" --only fp4-neirest
says_err "there is no check 'fp4-neirest', but fp4-nearest"
refused 2 check "$a" --skip 99
refused 2 check "$a" --only ''
refused 2 check "$a" --only 1,,2
refused 2 check "$a" --need gtp
says_err 'expected mtp'
refused 2 check "$a" --quiet --verbose
refused 2 check "$a" --threads 5000
refused 2 check "$a" --io fast
refused 2 check
refused 2 check "$a" "$q"
refused 3 check "$work/no-such-folder"
refused 3 check "$a" --against "$work/no-such-folder"
refused 3 check "$a" --waivers "$work/no-such-file"
refused 3 check "$a" --junit "$work/no-such-folder/report.xml"
# none of the requested checks can be made: the verdict is neither PASS nor FAIL
run 4 check "$a" --only 14
says 'MISTRUSTED'
check "not one line on stderr" one_line
run 4 check "$a" --only 14 --json
at verdict MISTRUSTED

# the MTP head: there; there but not declared; declared but not there
run 0 check "$a" --need mtp
says 'MTP FILE-OK: '
says '  ok      presence: '
says "  next: samebit check $a --loaded LIST"
says "    samebit accept $a --tokens-file TEXT -K DRAFTS --observed metrics.txt"
check "another engine" grep -q '  suspect llama.cpp' "$out"
run 0 check "$a" --need mtp --for vLLM
check "another engine" test -z "$(grep '  suspect [^v]' "$out")"
says '    curl -s http://HOST:PORT/metrics > metrics.txt'
run 0 check "$a" --for ollama --json
at mtp.for ollama
at mtp.settle.0 "samebit accept $a --tokens-file TEXT -K DRAFTS"
refused 2 check "$a" --for vlm
says_err "--for is 'vlm'; expected one of vllm, sglang, llamacpp, "
run 0 check "$a" --headers --json
at mtp.settle '[]'
run 0 check "$a" --need mtp --json
at mtp.for null
at mtp.settle.0 'curl -s http://HOST:PORT/metrics > metrics.txt'
at mtp_verdict FILE-OK
at need null
at mtp.declared true
at mtp.audit.0.question presence
at mtp.audit.0.state ok
check "no parts" test "$(value mtp.parts.length)" -gt 3
make_checkpoint headless --preset T4 --recipe plain --no-mtp
run 0 check "$work/headless" --json
at mtp_verdict NONE-DECLARED
run 1 check "$work/headless" --need mtp --json
at mtp_verdict NONE-DECLARED
at need 'no MTP head is declared and none is there'
sed -i 's/"mtp_num_hidden_layers": 0/"mtp_num_hidden_layers": 1/' "$work/headless/config.json"
run 1 check "$work/headless" --need mtp --json --junit "$work/mtp.xml"
at mtp_verdict FILE-BAD
at mtp.declared true
xml "$work/mtp.xml"
count_xml "$work/mtp.xml" '<failure type="FILE-BAD"' 1
run 1 check "$work/headless" --need mtp --skip 10
says 'MTP FILE-BAD'
says "samebit graft $work/headless --take 'mtp.*' --from "
says_err '--need mtp: the MTP head of these files is not usable'
# a name with any characters is one word of the printed command
mv "$work/headless" "$work/a \$(b)'c"
run 0 check "$work/a \$(b)'c" --headers
says "samebit graft '$work/a \$(b)'\\''c' --take 'mtp.*' --from "

# a damaged folder: many findings of one check are shown up to a limit
run 1 check "$a" --against "$other"
check "not one line on stderr" one_line
says 'ERROR 14 untouched: '
says '  engines: the model is not the one that its card names'
says '  what to do: take these tensors from the original: samebit graft'
says 'more (--verbose or --json lists all)'
says "FAIL $a: 0 FATAL, "
run 1 check "$a" --against "$other" --verbose
lacks 'lists all'
run 1 check "$a" --against "$other" --only 14 --json --junit "$work/14.xml"
at verdict FAIL
at findings.0.check 14
at findings.0.id untouched
at findings.0.level ERROR
at findings.0.waived null
at checks.0.state found
at checks.0.engines 'the model is not the one that its card names'
at checks.0.advice 'take these tensors from the original: samebit graft'
errors=$(value counts.error)
same "findings and counts" "$(value findings.length)" $((errors + $(value counts.warn) + $(value counts.info)))
first=$(value findings.0.tensor)
xml "$work/14.xml"
count_xml "$work/14.xml" '<testcase classname="samebit.check" name="' $((checks + 2))
count_xml "$work/14.xml" '<failure type="ERROR"' 1
count_xml "$work/14.xml" '<skipped message="not wanted"/>' $((checks - 1))
# the original of another model: one finding, and nothing is compared with it
run 1 check "$q" --against "$stranger"
says 'ERROR 14 untouched: '
says 'this is probably not the original of this checkpoint: these tensors do not belong to it: '
says 'SKIPPED (--against probably does not name the original: see check 14, untouched): 23 fp4-nearest'
says "against $stranger: "
says "FAIL $q: 0 FATAL, 1 ERROR, 0 WARN, "
run 1 check "$q" --against "$stranger" --json
at against.stranger true
run 0 check "$q" --against "$stranger" --headers
run 1 check "$q" --against "$stranger" --skip 14
lacks 'probably not the original'
run 1 check golden/bad/not-in-shard --only 2
says 'FATAL 2 index: index and files name the same tensors'
says '  d: '

# the worst first
run 1 check golden/bad/missing-shard
check "no FATAL first" grep -q '^FATAL' <(sed -n 3p "$out")

# waivers
waive() { printf '%s\n' "$@" > "$work/waivers"; }
waive '# looked at' '' '14 * # the seed was changed on purpose'
run 0 check "$a" --against "$other" --only 14 --waivers "$work/waivers"
says '[waived, line 3: the seed was changed on purpose]'
says "PASS $a: 0 FATAL, 0 ERROR, 0 WARN, 0 INFO, $errors waived"
lacks 'WARN waivers'
run 0 check "$a" --against "$other" --only 14 --waivers "$work/waivers" --sarif "$work/waived.sarif" --markdown "$work/waived.md"
cp "$work/waived.sarif" "$out"
check "a waived finding is not suppressed" grep -q '"justification"' "$out"
check "a waived finding is in the summary" test -z "$(grep '^| ERROR' "$work/waived.md")"
run 0 check "$a" --against "$other" --only 14 --waivers "$work/waivers" --json --junit "$work/waived.xml"
at verdict PASS
at waived "$errors"
at findings.0.waived 'the seed was changed on purpose'
at checks.0.state waived
at waivers.0.covered "$errors"
at waivers.0.state used
xml "$work/waived.xml"
count_xml "$work/waived.xml" '<failure' 0
waive "untouched $first # this one" '14 nothing.* # stale'
run 1 check "$a" --against "$other" --only untouched --waivers "$work/waivers" --json
at waived 1
at counts.error $((errors - 1))
at waivers.1.state unused
run 1 check "$a" --against "$other" --only untouched --waivers "$work/waivers"
says 'line 2: untouched nothing.* covers nothing: remove this line'
# nothing is known about a check that was not made
run 0 check "$a" --waivers "$work/waivers" --json
at waivers.1.state 'its check was not made'
waive '2 * # cannot be'
run 1 check golden/bad/not-in-shard --only 2 --waivers "$work/waivers"
says 'only FATAL findings, which cannot be waived'
for bad in '14 *' '14 * #' '14' 'no-such-check * # why' '14 a b # why' '99 * # why'; do
    waive '# first' "$bad"
    refused 3 check "$a" --waivers "$work/waivers"
    says_err "$work/waivers:2: "
done
printf '14 * # a\0b\n' > "$work/waivers"
refused 3 check "$a" --waivers "$work/waivers"

# reports with names that have all special characters of XML are well-formed
header='{"a<b>&\"'\''\u0001\uffff\u00e9":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},"n":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]},"layers.1.</code></title><script>alert(1)</script>":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]}}'
while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
mkdir "$work/<&>"
{
    printf "\\$(printf %o ${#header})\0\0\0\0\0\0\0%s\0\0\0\0\0\0" "$header"
} > "$work/<&>/model.safetensors"
# NaN, so that a payload check names it
printf '\300\177\300\177\300\177' | dd of="$work/<&>/model.safetensors" bs=1 seek=$((8 + ${#header})) conv=notrunc 2> "$err"
run 1 check "$work/<&>" --junit "$work/names.xml"
xml "$work/names.xml"
check "the name is not in the report" grep -q 'a&lt;b&gt;&amp;&quot;&apos;' "$work/names.xml"
run 1 check "$work/<&>" --json
check "no document" test "$(value command)" = check
# the other forms of the same report: every finding stands in each, and nothing of a name is taken for markup
run 1 check "$work/<&>" --json --sarif "$work/names.sarif" --markdown "$work/names.md" --badge "$work/names.svg"
findings=$(grep -c '"tensor": ' "$out")
cp "$work/names.sarif" "$out"
at version 2.1.0
at runs.0.properties.verdict FAIL
at runs.0.tool.driver.rules.0.id container
check "findings: $(grep -c '"ruleIndex"' "$out"), expected $findings" test "$(grep -c '"ruleIndex"' "$out")" = "$findings"
check "no error" grep -q '"level": "error"' "$out"
check "no tensor" grep -q '"fullyQualifiedName": "n"' "$out"
check "no file" grep -q '<&>/model.safetensors"' "$out"
check "summary" grep -q '^### samebit check: FAIL$' "$work/names.md"
check "markup in the summary" test -z "$(grep '<b>' "$work/names.md")"
check "no finding in the summary" grep -q '^| FATAL | finite | n | ' "$work/names.md"
xml "$work/names.svg"
check "badge" grep -q '>FAIL' "$work/names.svg"
run 0 check "$a" --quiet --badge "$work/badge.json" --sarif "$work/a.sarif" --markdown "$work/a.md"
cp "$work/badge.json" "$out"
at schemaVersion 1
at message 'PASS, MTP FILE-OK'
check "summary" grep -q '^MTP head: \*\*FILE-OK\*\*' "$work/a.md"
check "a warning in the summary of a sound folder" test -z "$(grep '^| ' "$work/a.md")"
refused 3 check "$a" --sarif "$work/no-such-folder/report.sarif"

# the page and the picture have the same verdict, every finding, and a map that is red where damage is
field() { # field FILE COLOUR TEXT: the page has such a field
    check "$1: no field $2 of: $3" grep -q "class=\"$2\"><title>$3" "$work/$1.html"
}
run 1 check "$work/<&>" --json --html "$work/names.html" --image "$work/names.svg"
page "$work/names.html" FAIL
check "the name is not on the page" grep -qF '<code>layers.1.&lt;/code&gt;&lt;/title&gt;&lt;script&gt;alert(1)' "$work/names.html"
check "not every finding is on the page" test "$(grep -c '^<tr><td><span class="verdict' "$work/names.html")" -ge "$findings"
field names h6 'model.safetensors, layer 1: 1 tensor, '
xml "$work/names.svg"
check "no verdict in the picture" grep -q '>FAIL</text>' "$work/names.svg"
run 0 check "$a" --against "$a" --skip untouched --html "$work/sound.html" --image "$work/sound.svg" -q
page "$work/sound.html" PASS
check "damage in a sound folder" test "$(grep -c 'class="h[t6]"><title>' "$work/sound.html")" = 0
check "red in the picture of a sound folder" test "$(grep -c 'height="16" class="[wd]"' "$work/sound.svg")" = 0
cp "$work/sound.html" "$work/first.html"
cp "$work/sound.svg" "$work/first.svg"
run 0 check "$a" --against "$a" --skip untouched --html "$work/sound.html" --image "$work/sound.svg" -q --threads 1 2> /dev/null
check "another picture" cmp "$work/sound.svg" "$work/first.svg"
check "another page" cmp <(grep -v '<pre class="command">' "$work/sound.html") <(grep -v '<pre class="command">' "$work/first.html")
# a fault of every layer is red in every layer, although the text only counts it; also a missing file, and a finding
# about no tensor
make_checkpoint deep --preset T4 --layers 12 --shard-bytes 300000
cp -r "$work/deep" "$work/narrow"
sed -i 's/"intermediate_size": *[0-9]*/"intermediate_size": 100/' "$work/narrow/config.json"
run 1 check "$work/narrow" --headers --verbose --html "$work/narrow.html" --image "$work/narrow.svg"
says 'more, this one first, '
page "$work/narrow.html" FAIL
for layer in 0 1 2 3 4 5 6 7 8 9 10 11; do field narrow h6 "model-[-0-9of]*.safetensors, layer $layer: "; done
field narrow h6 'model-00017-of-00017.safetensors, MTP head: 7 tensors, 3 findings<'
field narrow h2 'model-00001-of-00017.safetensors, embedding: 1 tensor<'
check "three matrices of each layer are too wide" test "$(grep -c 'class="h6"><title>' "$work/narrow.html")" = 19
check "the picture has other fields" test "$(grep -c 'height="16" class="d"' "$work/narrow.svg")" = 19
echo '7 *.layers.* # known' > "$work/known"
run 1 check "$work/narrow" --headers --waivers "$work/known" --html "$work/waived.html" -q
field waived h6 'model-00002-of-00017.safetensors, layer 0: ' # FATAL cannot be waived
rm "$work/deep/model-00005-of-00017.safetensors"
run 1 check "$work/deep" --html "$work/gone.html" --image "$work/deep/gone.svg" -q
page "$work/gone.html" FAIL
field gone h6 'model-00005-of-00017.safetensors, layer 3: 0 tensors, 9 missing<'
field gone h6 'the folder, layer 3: 0 tensors, 1 finding<'
field gone h2 'model-00006-of-00017.safetensors, layer 3: 2 tensors<'
check "a finding that is no damage" test "$(grep -c 'h6"><title>model' "$work/gone.html")" = 2
waive '14 * # the seed was changed on purpose'
run 0 check "$a" --against "$other" --only 14 --waivers "$work/waivers" -q --html "$work/waived.html" --image "$work/waived.svg"
page "$work/waived.html" PASS
field waived n 'model-00002-of-[0-9]*.safetensors, layer 2: [0-9]* tensors<'
check "red, and every finding is waived" test "$(grep -c 'class="h[t6]"><title>' "$work/waived.html")" = 0
check "the reason is not on the page" grep -q '<i>waived: the seed was changed on purpose</i>' "$work/waived.html"
run 1 check "$a" --against "$other" --only 14 -q --html "$work/unwaived.html"
field unwaived h6 'model-00002-of-[0-9]*.safetensors, layer 2: [0-9]* tensors, [0-9]* finding'
# O-2: many files and layers share fields, and damage stays red
make_checkpoint tall --preset T4 --layers 300 --shard-bytes 300000
rm "$work/tall/model-00100-of-00377.safetensors"
run 1 check "$work/tall" --headers --html "$work/tall.html" --image "$work/tall.svg" -q
check "files do not share a row" grep -q '3 files share a row' "$work/tall.html"
check "layers do not share a column" grep -q '4 layers share a column' "$work/tall.html"
field tall h6 'model-00100-of-00377.safetensors and 2 more, layer 79 to layer 82: [0-9]* tensors, [0-9]* missing<'
check "the picture has more than 24 rows" test "$(grep -c 'class="e"' "$work/tall.svg")" -le 25
# the page lists skipped checks, and shows the drafts of a run; a picture inside the folder is replaced
run 1 check "$work/deep" --html "$work/gone.html" --image "$work/deep/gone.svg" -q --only index,finite
check "the skipped checks" grep -q '<td class="words">not wanted</td>' "$work/gone.html"
run 0 check "$a" --run 70 --html "$work/drafts.html" -q
page "$work/drafts.html" PASS
check "no draft on the page" grep -q '<h3>What it drafts</h3>' "$work/drafts.html"
check "no interval" grep -q 'class="chart interval"' "$work/drafts.html"
refused 3 check "$a" --html "$work/no-such-folder/page.html"
refused 2 check "$a" --html "$work/x.html" --image "$work/x.html"
refused 2 check "$a" --image "$a/config.json"
check "config.json was written" grep -q vocab_size "$a/config.json"
pages_seen
refused 2 check "$a" --sarif "$work/x" --junit "$work/x"
# a report that cannot be written leaves the old file
mkdir "$work/taken.xml"
refused 3 check "$a" --junit "$work/taken.xml"
for command in "check $a" "check $a --json" 'check --list'; do
    last="$command > /dev/full"
    # shellcheck disable=SC2086
    "$SAMEBIT" $command > /dev/full 2> "$err"
    check "exit status of a full device" test $? = 3
done

# the cache of the hub, with links into blobs as the real one has
hash=0123456789abcdef0123456789abcdef01234567
repo=$work/home/hub/models--org--tiny
mkdir -p "$repo/refs/refs/pr" "$repo/blobs" "$repo/snapshots/$hash"
printf %s $hash > "$repo/refs/main"
printf %s $hash > "$repo/refs/refs/pr/1"
for file in "$a"/*; do
    blob=$(cksum < "$file" | tr ' ' -)
    cp "$file" "$repo/blobs/$blob"
    ln -s "../../blobs/$blob" "$repo/snapshots/$hash/$(basename "$file")"
done
unset HF_HUB_CACHE HUGGINGFACE_HUB_CACHE XDG_CACHE_HOME
export HF_HOME=$work/home HOME=$work/elsewhere
for id in org/tiny org/tiny@main org/tiny@$hash org/tiny@refs/pr/1; do
    run 0 check $id --json
    at checkpoint "$repo/snapshots/$hash"
done
run 0 check "$q" --against org/tiny --json
at against.path "$repo/snapshots/$hash"
at skipped '[]'
run 0 check "$repo/snapshots/$hash" --quiet
refused 3 check org/tiny@v2
says_err "cache $work/home/hub; 1 snapshots of other revisions are in the cache: @$hash; to download it: hf download org/tiny --revision v2"
refused 3 check org/absent
says_err 'hf download org/absent'
refused 3 check ../tiny
refused 3 check 'org/tiny@../../x'
HUGGINGFACE_HUB_CACHE=$work/home/hub HF_HOME=$work/none run 0 check org/tiny --quiet
HF_HUB_CACHE=$work/home/hub HF_HOME=$work/none run 0 check org/tiny --quiet
HF_HOME='' XDG_CACHE_HOME=$work/none run 3 check org/tiny
says_err "$work/none/huggingface/hub"
mkdir -p "$work/elsewhere/.cache/huggingface"
ln -s "$work/home/hub" "$work/elsewhere/.cache/huggingface/hub"
HF_HOME='' run 0 check org/tiny --quiet
# a real folder of that name takes precedence over the cache
last="check org/tiny in a folder that has it"
mkdir -p "$work/here/org"
cp -r "$q" "$work/here/org/tiny"
program=$(realpath "$SAMEBIT")
(cd "$work/here" && "$program" check org/tiny --json) > "$out" 2> "$err"
check "exit status" test $? = 0
at checkpoint org/tiny

# for an incomplete original in the cache, the message names the id to download
make_checkpoint parts --preset T4 --recipe plain --shard-bytes 200000
mkdir -p "$work/home/hub/models--org--parts/refs" "$work/home/hub/models--org--parts/snapshots"
cp -r "$work/parts" "$work/home/hub/models--org--parts/snapshots/abc"
echo abc > "$work/home/hub/models--org--parts/refs/main"
one=$(cd "$work/parts" && ls ./*.safetensors | sed -n '2s|^./||p')
rm "$work/home/hub/models--org--parts/snapshots/abc/$one"
run 0 check "$q" --against org/parts
says "what to do: hf download org/parts --include '$one'"
run 0 check "$q" --against org/parts@main
says "what to do: hf download org/parts --revision main --include '$one'"

# an original with missing files
make_checkpoint shards --preset T4 --recipe plain --shard-bytes 200000
gone=$(cd "$work/shards" && ls *.safetensors | sed -n 2p)
rm "$work/shards/$gone"
run 0 check "$q" --against "$work/shards"
says 'OF THE ORIGINAL 1 files are missing here'
says "--include '$gone'"
run 0 check "$q" --against "$work/shards" --json
at against.missing_files "[\"$gone\"]"
check "nothing was left out" test "$(value against.not_compared)" -gt 0
# a missing file of the checkpoint itself is FATAL
run 1 check "$work/shards" --headers
says "$gone"

run 0 check --help
says 'exit status: PASS 0'
finish
