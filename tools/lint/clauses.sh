#!/usr/bin/env bash
# Every quotation of a document is correct, every clause is quoted, and every row of a list has its clause.
. "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
mapfile -t sources < <(files_matching '^(ref|gpu|tools|tests)/.*\.(c|cc|h|cu|cuh|def)$')
mapfile -t documents < <(files_matching '^docs/.*\.md$')
awk -f "$lint_dir/clauses.awk" "${documents[@]}" "${sources[@]}" 2>&1 |
    rule "quotations stand in their clauses, and every clause is quoted"

# A row of ops.def names a clause, which starts with the name of the op.
sed -n 's/^SB_OP(\([a-z0-9_]*\), "\([A-Z]-[0-9]*\)").*/\1 \2/p' ref/ops/ops.def | {
    rows=0
    while read -r op clause; do
        rows=$((rows + 1))
        grep -qE "^\*\*$clause\*\* $op[ :,]" docs/spec.md ||
            echo "ref/ops/ops.def: clause $clause of docs/spec.md does not define $op"
        grep -qE "\bsb_${op}_ref\(" ref/ops/*.c || echo "ref/ops/ops.def: no sb_${op}_ref in ref/ops"
    done
    [ $rows = "$(grep -c '^SB_OP(' ref/ops/ops.def)" ] && [ $rows -gt 0 ] ||
        echo "ref/ops/ops.def: $rows rows could be read"
} | rule "every op of ref/ops/ops.def is defined by its clause"

grep -ohE '^SB_[A-Z]+\(.*"[A-Z]-[0-9]+"' ref/formats/formats.def ref/ops/knobs.def 2>/dev/null |
    grep -oE '"[A-Z]-[0-9]+"$' | tr -d '"' | sort -u | while read -r clause; do
    grep -q "^\*\*$clause\*\* " docs/spec.md || echo "ref: a list names clause $clause, which docs/spec.md lacks"
done | rule "the lists of formats and knobs name existing clauses"
close_lint
