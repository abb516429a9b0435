#!/usr/bin/env bash
# The pages as a site, BUILD/site, by lowdown: `make site`. The folders are those of the tree; every file that a page
# links to comes along. Then every link of the written pages is followed; one that leads nowhere is a failure.
#
#   tools/pack/site.sh --check FOLDER   only follows the links of this folder
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export LC_ALL=C
site=${BUILD:-build}/site
lowdown=${LOWDOWN:-lowdown}

# PAGE TARGET of each link and image of a page that leads to no other site
links() {
    grep -oE '(href|src)="[^"]*"' "$1" | sed -e 's/^[a-z]*="//; s/"$//' | grep -vE '^[a-z]+:' | sort -u || true
}
check() { # check FOLDER: says which links lead nowhere
    local page target file bad=0 count=0
    while read -r page; do
        while read -r target; do
            file=${target%%#*}
            [ -n "$file" ] && file=$(realpath -ms "$(dirname "$page")/$file") || file=$page
            count=$((count + 1))
            if [ ! -e "$file" ]; then
                echo "$page: leads to $target, which does not exist"
                bad=1
            elif [[ $target == *#* ]] && ! grep -qF "id=\"${target#*#}\"" "$file"; then
                echo "$page: leads to $target, but the page has no such heading"
                bad=1
            fi
        done < <(links "$page")
    done < <(find "$1" -name '*.html' | sort)
    [ $count -gt 0 ] || { echo "$1: the pages have no links" && bad=1; }
    [ $bad = 0 ] && echo "$1: all $count links lead to a page"
}
if [ "${1-}" = --check ]; then
    check "$2"
    exit
fi

command -v "$lowdown" > /dev/null || { echo "site: lowdown is missing: apt-get install lowdown" >&2; exit 1; }
rm -rf "$site"
style='body{max-width:60em;margin:2em auto;padding:0 1em;font:16px/1.5 sans-serif}pre,code{background:#f4f4f4}pre{padding:.6em;overflow-x:auto}table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border:1px solid #ccc;padding:.2em .5em;text-align:left;vertical-align:top}img{max-width:100%}'
page() { # page FILE: its HTML
    local title up
    title=$(sed -n '/^# /{s/^# //;s/[`*]//g;s/&/\&amp;/g;s/</\&lt;/g;p;q;}' "$1")
    up=$(dirname "$1" | sed -e 's|^\.$||; s|[^/][^/]*|..|g; s|$|/|; s|^/$||')
    printf '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
    printf '<title>%s</title><style>%s</style></head><body>\n<p><a href="%sdocs/index.html">all pages</a></p>\n' "$title" "$style" "$up"
    "$lowdown" -Thtml "$1" | sed -E 's/(href="[^":#]*)\.md(#[^"]*)?"/\1.html\2"/g'
    echo '</body></html>'
}
for source in README.md $(find docs -name '*.md' | sort); do
    mkdir -p "$site/$(dirname "$source")"
    page "$source" > "$site/${source%.md}.html"
done
# what the pages link to beside pages
while read -r written; do
    while read -r target; do
        file=$(realpath -ms --relative-to="$site" "$(dirname "$written")/${target%%#*}")
        [ -n "${target%%#*}" ] && [[ $file != ..* ]] && [ ! -e "$site/$file" ] && [ -e "$file" ] || continue
        mkdir -p "$site/$(dirname "$file")" && cp -r "$file" "$site/$file"
    done < <(links "$written")
done < <(find "$site" -name '*.html' | sort)
printf '<!doctype html>\n<meta charset="utf-8"><title>samebit</title><meta http-equiv="refresh" content="0; url=README.html">\n<a href="README.html">samebit</a>\n' > "$site/index.html"
check "$site"
