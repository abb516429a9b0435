# clauses.awk - checks that the code quotes the numbered clauses of the documents correctly. Input: the
# documents, docs/spec.md among them, then the sources.
#
# A clause is a paragraph of a document that starts with `**R-10** `. A quotation is `R-10: "words"` in a
# source, possibly over several lines of a comment; its words have to be in the clause, apart from white
# space. Output: one line for each quotation whose words are not there, and for each clause that no
# source quotes.

function complain(where, what) { printf "%s: %s\n", where, what }

function squeeze(text)
{
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    return text
}

# checks `words`, said to be of clause `id`
function judge(id, words)
{
    if (!(id in clause))
        complain(source, id ": there is no such clause")
    else if (length(words) < 10)
        complain(source, id ": quotes too little to mean anything: " words)
    else if (index(clause[id], words) == 0)
        complain(source, id ": the clause does not say: " words)
    else
        quoted[id]++
}

# reads the quotations of one source, whose lines are joined in `code`. The number of a clause is followed
# by one quotation, or by several with a comma or "and" between them
function read_quotes(    id, rest, end, words)
{
    rest = code
    while (match(rest, /[A-Z]-[0-9]+: +"/)) {
        id = substr(rest, RSTART, RLENGTH)
        sub(/:.*/, "", id)
        rest = substr(rest, RSTART + RLENGTH)
        do {
            end = index(rest, "\"")
            words = squeeze(substr(rest, 1, end ? end - 1 : 80))
            if (end)
                judge(id, words)
            else
                complain(source, id ": a quotation without an end: " words)
            rest = substr(rest, end + 1)
        } while (end && match(rest, /^[,;]? +(and )?"/) && (rest = substr(rest, RLENGTH + 1)) != "")
    }
    code = ""
}

FNR == 1 {
    if (code != "")
        read_quotes()
    source = FILENAME
    in_document = FILENAME ~ /^docs\//
    current = ""
}

in_document && match($0, /^\*\*[A-Z]-[0-9]+\*\* /) {
    current = substr($0, 3, RLENGTH - 5)
    if (current in clause)
        complain(FILENAME ":" FNR, current ": the number stands twice")
    order[++clauses] = current
    document[current] = FILENAME
    clause[current] = squeeze(substr($0, RLENGTH + 1))
    next
}
in_document {
    if ($0 ~ /^[ \t]*$/ || $0 ~ /^#/)
        current = ""
    if (current != "")
        clause[current] = squeeze(clause[current] " " $0)
    next
}

{
    line = $0
    sub(/^[ \t]*(\/\*|\*\/|\*|\/\/)?/, "", line)
    code = code " " line
}

END {
    if (code != "")
        read_quotes()
    for (i = 1; i <= clauses; i++) {
        in_spec += document[order[i]] == "docs/spec.md"
        if (!(order[i] in quoted))
            complain(document[order[i]], order[i] ": no source quotes this clause")
    }
    if (!in_spec)
        complain("docs/spec.md", "no clause was found")
}
