# Sourced by the lints: `. lib.bash "$@"`. A lint checks the tree given as its operand, or this one. It
# collects findings, one per line as `file:line: what is wrong`, and ends with the counts like every test.
set -uo pipefail
shopt -s lastpipe # the end of a pipeline counts in this shell
export LC_ALL=C
lint_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$lint_dir/../..}" || exit 2
passed=0 failed=0 skipped=0

# All files of the tree: those that git tracks or would track; without git (a tarball), all but build/.
tree_files() {
    if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$PWD" ]; then
        git ls-files -co --exclude-standard | while IFS= read -r file; do
            [ ! -f "$file" ] || printf '%s\n' "$file"
        done
    else
        find . \( -path ./build -o -path ./.git -o -name __pycache__ \) -prune -o -type f -print |
            sed 's|^\./||'
    fi | sort
}

files_matching() { tree_files | grep -E "$1"; }

# rule NAME < findings: the rule holds if there are none
rule() {
    local findings
    findings=$(cat)
    if [ -z "$findings" ]; then
        passed=$((passed + 1))
        printf 'ok      %s\n' "$1"
    else
        failed=$((failed + 1))
        printf '%s\n' "$findings"
        printf 'FAILED  %s\n' "$1"
    fi
}

skip() { # skip NAME REASON
    skipped=$((skipped + 1))
    printf 'SKIPPED %s: %s\n' "$1" "$2"
}

close_lint() {
    printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
    [ $failed = 0 ] && [ $((passed + skipped)) -gt 0 ]
}
