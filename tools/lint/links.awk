# Reads pages of Markdown and prints `file:line target` for each link or picture with a relative target, and
# `file # anchor` for each heading, as GitHub names it. Code is left out: fenced blocks, indented blocks, `words`.
FNR == 1 { fenced = 0 }
/^ *```/ { fenced = !fenced; next }
fenced || /^    / { next }
/^#+ / {
    anchor = tolower($0)
    sub(/^#+ +/, "", anchor)
    gsub(/[^a-z0-9 _-]/, "", anchor)
    gsub(/ /, "-", anchor)
    print FILENAME " # " anchor
}
{
    line = $0
    gsub(/`[^`]*`/, "", line)
    while (match(line, /\]\([^()]*\)/)) {
        target = substr(line, RSTART + 2, RLENGTH - 3)
        line = substr(line, RSTART + RLENGTH)
        if (target !~ /^[a-z]+:/)
            print FILENAME ":" FNR " " target
    }
}
