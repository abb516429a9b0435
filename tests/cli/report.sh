#!/usr/bin/env bash
# The reports of a comparison: all have the same verdict, the same run gives the same bytes, a pack has all reports and
# replays, JUnit files follow a schema (xmllint), and the page is measured in a browser (chromium).
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/page.bash"

make_checkpoint t4 --preset T4 --recipe predictable --layers 4
t4=$work/t4
there=$PWD
has() { check "$1 lacks: $2" grep -qF -- "$2" "$1"; }
# last_line FILE PATH: a member of the summary, which is the last line
last_line() { tail -n 1 "$1" | "$there/$helpers/json_at" "$2"; }

# --- a run that fails, and one that passes ------------------------------------------------------------------
reports() { # reports NAME: options for all reports of a run
    echo --report "$work/$1.html" --jsonl "$work/$1.jsonl" --junit "$work/$1.xml" --bundle "$work/$1.tar"
}
# shellcheck disable=SC2046
agree() { # agree NAME STATUS VERDICT ARG...
    local name=$1 status=$2 verdict=$3
    shift 3
    run "$status" diff "$t4" "$@" --json $(reports "$name")
    at verdict "$verdict"
    cp "$out" "$work/$name.json"
    has "$work/$name.html" "data-verdict=\"$verdict\""
    has "$work/$name.xml" "<property name=\"verdict\" value=\"$verdict\"/>"
    same "the summary of $name" "$(last_line "$work/$name.jsonl" verdict)" "$verdict"
    same "what the summary of $name is" "$(last_line "$work/$name.jsonl" type)" summary
    check "something temporary is left" test "$(find "$work" -maxdepth 1 -name "$name.*" | wc -l)" = 5
}
agree fail 1 FAIL --engine sim:sequential+no_dt_bias --tokens 1,2,3 -n 6 --draft 2 --explain
agree pass 0 WITHIN --engine sim:sequential --tokens 1,2,3 -n 6 --draft 2
same "lines of the failure" "$(wc -l < "$work/fail.jsonl")" "$((
    $(grep -c '"type":"token"' "$work/fail.jsonl") + $(grep -c '"type":"round"' "$work/fail.jsonl") +
    $(grep -c '"type":"op"' "$work/fail.jsonl") + $(grep -c '"type":"explanation"' "$work/fail.jsonl") + 3))"
has "$work/fail.html" 'in the op <b class="bad">gates</b>. It <b>behaves like a mistake: dt_bias is not added</b>'
has "$work/fail.jsonl" '"layers":[0,1,2,3,"mtp.0",null]'
check "a pass has a first failure" test "$(grep -c first_failure "$work/pass.jsonl")" = 0
check "a failure in a pass" test "$(grep -c 'class="h[56]"><title>' "$work/pass.html")" = 0

# the layer of each field, and the element among its neighbours
forced() { run 1 diff "$t4" --engine "$@" --tokens 1,2,3 -n 3 --draft 2 --forced --json --jsonl "$work/forced.jsonl"; }
wrong_layers() { # the layers that are wrong in any token: their places among the fields
    grep '"type":"token"' "$work/forced.jsonl" | sed 's/.*"layers":\[\(.*\)\].*/\1/' |
        awk -F, '{ for (i = 1; i <= NF; i++) if ($i != "null" && $i > 1) wrong[i - 1] = 1; n = NF }
            END { for (i = 0; i < n; i++) if (wrong[i]) printf "%d ", i }'
}
forced sim:sequential+no_dt_bias
same "layers of the delta rule" "$(wrong_layers)" "0 1 2 "
forced sim:sequential+rotate_all
same "layers of attention" "$(wrong_layers)" "3 4 "
make_checkpoint t1 --preset T1
run 1 diff "$work/t1" --engine sim:sequential+head_map_mod --tokens 1,2,3 -n 1 --forced --json \
    --jsonl "$work/forced.jsonl"
# without drafts, the worst of a token is the worst of its layers
same "tokens whose worst is that of a layer" "$(grep '"type":"token"' "$work/forced.jsonl" |
    sed 's/.*"worst_ratio":\([^,]*\),.*"layers":\[\(.*\)\].*/\1,\2/' |
    awk -F, '{ most = 0; for (i = 2; i <= NF; i++) if ($i != "null" && $i > most) most = $i
        if (most > 0.999999 * $1 && most < 1.000001 * $1) right++ } END { print right + 0 }')" 3
at first_failure.element.0 64
at first_failure.around.first 56
for side in found expected bound; do
    same "$side among its neighbours" "$(value first_failure.$side)" "$(value first_failure.around.$side.8)"
    same "neighbours" "$(value first_failure.around.$side.length)" 17
done
forced sim:sequential --engine-set mtp_hidden=residual
same "the head" "$(wrong_layers)" "4 "
at first_failure.layer mtp.0
# an error in a draft belongs to the token that the draft follows
forced sim:sequential --engine-set mtp_recycled=residual --report "$work/draft.html"
same "the head in drafts" "$(wrong_layers)" "4 "
same "where drafts begin" "$(value tokens.2.verdict) $(grep '"type":"token"' "$work/forced.jsonl" |
    grep -nE '"layers":\[([^,]*,){4}[0-9.]+e[0-9]+,' | cut -d: -f1 | tr '\n' ' ')" "WITHIN 3 "
has "$work/draft.html" '<rect x="2" y="5" width="1" height="1" class="first">'

# --- a wrong state ----------------------------------------------------------------------------------------------
# no op and no token is wrong there: the map shows the state itself, in its layer, or in the token without layers
run 0 fault hit.conv_shifted --write "$work/slip" --json
for way in --forced --free; do
    run 1 diff "$work/slip/checkpoint" --engine "$work/slip/trace" $way --explain --runs 2 --report "$work/slip$way.html"
done
at_place() { grep -o '<rect x="[0-9]*" y="[0-9]*" width="1" height="1" class="first">' "$1" | grep -o 'y="[0-9]*"'; }
same "the frame in its layer" "$(at_place "$work/slip--forced.html")" 'y="1"'
same "the frame without layers" "$(at_place "$work/slip--free.html")" 'y="0"'
for way in --forced --free; do
    page=$work/slip$way.html
    check "$way: no field shows the state" grep -q 'class="h6"><title>.*: the state behind it is wrong' "$page"
    has "$page" "<p class=\"program\">samebit $("$SAMEBIT" --version | sed -n 's/^samebit \([^,]*\).*/\1/p')</p>"
    check "$way: how far it is off" test "$way" = --forced -o -n "$(grep -o '[0-9] times too far off' "$page")"
    same "$way: the order" "$(grep -o 'data-section="\(map\|failure\)"' "$page" | tr '\n' ' ')" \
        'data-section="map" data-section="failure" '
done
same "the headline" "$(grep -c '^<p class="short">.*behaves as if the conv states were' "$work/slip--free.html")" 1
check "a passing page shows a wrong state" test "$(grep -c 'the state behind it' "$work/pass.html")" = 0
# the closing line of a failure in the free comparison names the token
run 1 diff "$t4" --engine sim:sequential+no_dt_bias --tokens 1,2,3 -n 1 --free --taps logits
says_err 'FAIL: token '

# --- packs ---------------------------------------------------------------------------------------------------
mkdir "$work/fail" "$work/pass"
tar xf "$work/fail.tar" -C "$work/fail" && tar xf "$work/pass.tar" -C "$work/pass"
same "the order" "$(tar tf "$work/fail.tar" | tr '\n' ' ')" \
    'report.html report.json report.jsonl replay.safetensors command.txt issue.md digests.txt '
check "something failed in a pass" test ! -e "$work/pass/replay.safetensors"
for name in fail pass; do
    check "another page" cmp "$work/$name/report.html" "$work/$name.html"
    check "another document" cmp "$work/$name/report.json" "$work/$name.json"
    check "other lines" cmp "$work/$name/report.jsonl" "$work/$name.jsonl"
done
has "$work/fail/issue.md" '### FAIL: `sim:sequential+no_dt_bias` against the samebit reference'
has "$work/pass/issue.md" '### WITHIN: '
has "$work/fail/command.txt" "samebit diff $t4 --engine sim:sequential+no_dt_bias --tokens 1,2,3 -n 6"
same "digests" "$(wc -l < "$work/fail/digests.txt")" 6
run 0 hash "$t4" --json
has "$work/fail.html" "$(value digest)"
run 1 replay "$work/fail.tar" --json
at op gates
cp "$out" "$work/replayed"
run 1 replay "$work/fail/replay.safetensors" --json
check "another replay from the pack" cmp "$out" "$work/replayed"
refused 3 replay "$work/pass.tar"
says_err 'the pack has no replay.safetensors'
head -c 2000 "$work/fail.tar" > "$work/cut.tar"
refused 3 replay "$work/cut.tar"
# the same bytes again
cp "$work/fail.tar" "$work/first"
cp "$work/fail.xml" "$work/first.xml"
agree fail 1 FAIL --engine sim:sequential+no_dt_bias --tokens 1,2,3 -n 6 --draft 2 --explain
check "two packs of one run differ" cmp "$work/fail.tar" "$work/first"
check "two JUnit files of one run differ" cmp "$work/fail.xml" "$work/first.xml"

# --- two engines; a file name with markup ----------------------------------------------------------------------
run 0 diff "$t4" --engine sim:sequential --tokens 1,2,3 -n 2 --versus sim:pairwise --report "$work/two.html" \
    --jsonl "$work/two.jsonl" --junit "$work/two.xml" -q
has "$work/two.html" 'Right: <b>both</b>'
same "verdicts of two" "$(grep -c data-verdict= "$work/two.html")" 2
same "summaries of two" "$(grep -c '"type":"summary"' "$work/two.jsonl")" 2
odd="$work/<script>alert(1)<"
printf '1,2,3,4\n' > "$odd"
run 1 diff "$t4" --engine "$odd" --given 3 --report "$work/odd.html" --jsonl "$work/odd.jsonl" -q
check "a name became a tag" test "$(grep -c '<script' "$work/odd.html")" = 0
has "$work/odd.html" '&lt;script&gt;alert(1)&lt;'
has "$work/odd.jsonl" '"type":"pair"'
mkdir "$work/taken"
# two reports of one name, however it is spelled
for pair in '--report --jsonl' '--jsonl --junit' '--junit --bundle' '--report --bundle'; do
    refused 2 diff "$t4" --engine sim:sequential --tokens 1,2,3 -n 1 ${pair% *} "$work/x.tar" ${pair#* } "$work/taken/../x.tar"
    says_err 'name the same file'
done
check "one of two reports was written" test ! -e "$work/x.tar"
for option in --report --jsonl --junit --bundle; do
    run 3 diff "$t4" --engine sim:sequential --tokens 1,2,3 -n 1 -q $option "$work/no-such-folder/x.tar"
    says_err 'no-such-folder'
    check "a verdict twice" one_line
done

# --- JUnit by its schema ---------------------------------------------------------------------------------------
if command -v xmllint > /dev/null; then
    fits() { xmllint --noout --schema tests/cli/junit.xsd "$1" > /dev/null 2> "$work/why"; }
    run 0 check "$t4" --junit "$work/check.xml"
    for name in fail pass two check; do
        check "$name.xml breaks the schema: $(head -c 300 "$work/why" 2> /dev/null)" fits "$work/$name.xml"
    done
    # breaks NAME EDIT: the report, edited, is refused
    breaks() {
        sed "$2" "$work/$1.xml" > "$work/spoiled.xml"
        check "$2 changes nothing" test -n "$(cmp "$work/$1.xml" "$work/spoiled.xml")"
        check "the schema takes $2" test -z "$(fits "$work/spoiled.xml" && echo fits)"
    }
    breaks fail 's/tests="[0-9]*"/tests="many"/'
    breaks fail 's/<failure type="FAIL" /<failure /'
    breaks two 's/<skipped message/<skip message/'
    breaks two 's/<testcase /<testcase time="" /'
else
    skip "the schema of JUnit files" "no xmllint: tools/deps browser"
fi

# --- the page in a browser ---------------------------------------------------------------------------------------
page "$work/fail.html" FAIL
page "$work/pass.html" WITHIN
page "$work/two.html" WITHIN
page "$work/odd.html" FAIL
pages_seen
if command -v chromium > /dev/null; then
    {
        echo '<!DOCTYPE html><meta charset="utf-8"><body>'
        for name in fail pass; do for width in 400 1280; do frame $name $width "$work/$name.html"; done; done
        cat << 'END'
<pre id="found"></pre><script>
onload = () => {
  let lines = "";
  for (const f of document.querySelectorAll("iframe")) {
    const d = f.contentDocument, n = q => d.querySelectorAll(q).length;
    lines += `${f.name} verdict=${d.querySelector("header").dataset.verdict}` +
      ` fields=${n("svg.map rect:not(.first)")}` +
      ` frames=${n("rect.first")} wrong=${n("svg.map .h5, svg.map .h6")} ops=${n("tr[data-op]")}` +
      ` hits=${n(".around .hit")} svg=${n("svg.chart")}` +
      ` seen=${d.querySelector(".badge").getBoundingClientRect().height > 20}\n`;
  }
  document.getElementById("found").textContent = lines;
};
</script>
END
    } > "$work/frames.html"
    browse "$work/frames.html" > "$work/dom"
    sed -n '/<pre id="found">/,/<\/pre>/p' "$work/dom" | sed 's/.*<pre id="found">//' > "$work/found"
    tokens=$(grep -c '"type":"token"' "$work/fail.jsonl") others=$(grep -c '"type":"token"' "$work/pass.jsonl")
    ops=$(grep -c '"type":"op"' "$work/fail.jsonl")
    cp "$work/found" "$out"
    for width in 400 1280; do
        # layers 0 to 3, the head, none, and the whole token
        check "$width: the failing page" grep -qE "^fail-$width verdict=FAIL fields=$((7 * tokens)) frames=1 \
wrong=[1-9][0-9]* ops=$ops hits=1 svg=2 seen=true" "$work/found"
        check "$width: the passing page" grep -qE "^pass-$width verdict=WITHIN fields=$((7 * others)) frames=0 \
wrong=0 ops=$ops hits=0 svg=2 seen=true" "$work/found"
    done
else
    skip "what the page shows" "no chromium: tools/deps browser"
fi
finish
