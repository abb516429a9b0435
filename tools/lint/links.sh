#!/usr/bin/env bash
# Every link between pages has an existing target, and the index lists every page.
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
mapfile -t pages < <(files_matching '^(README|docs/.*)\.md$')
links=$([ ${#pages[@]} = 0 ] || awk -f "$lint_dir/links.awk" "${pages[@]}")

# PAGE:LINE TARGET of each link, with the target as a path from the root
targets=$(grep -v ' # ' <<< "$links" | while read -r place target; do
    page=${place%:*} path=${target%%#*} anchor=
    [ "$path" = "$target" ] || anchor=#${target#*#}
    folder=$(dirname "$page")
    [ -z "$path" ] && path=$page || path=$(realpath -ms --relative-to=. "$folder/$path")
    printf '%s %s%s\n' "$place" "$path" "$anchor"
done)
{
    [ -n "$targets" ] || echo "no link was found"
    [ -z "$targets" ] || while read -r place target; do
        path=${target%%#*}
        if [ ! -e "$path" ]; then
            echo "$place: leads to $path, which is not there"
        elif [ "$path" != "$target" ] && ! grep -qxF -- "$path # ${target#*#}" <<< "$links"; then
            echo "$place: $path has no heading #${target#*#}"
        fi
    done <<< "$targets"
} | rule "every link of the pages leads to a file and a heading"

for page in "${pages[@]}"; do
    case $page in
        README.md | docs/index.md) ;;
        *) grep -qE "^docs/index\.md:[0-9]+ $page(#|\$)" <<< "$targets" || echo "$page: does not stand in docs/index.md" ;;
    esac
done | rule "every page of docs/ stands in docs/index.md"
close_lint
