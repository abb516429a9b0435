#!/usr/bin/env bash
# What diff reports about errors on average (T-98), and about the matrix units that fit (T-100), in the document and on
# the page.
. "$(dirname "$0")/lib.bash"
make_checkpoint t4 --preset T4 --recipe mistakes --layers 4
judge() { # judge ENGINE: an engine whose arithmetic is not declared
    run 0 diff "$work/t4" --engine "$1" --arithmetic library --forced --tokens "$(seq -s, 1 70)" -n 2 --json \
        --report "$work/page.html"
}
page() { check "the page lacks: $1" grep -qF -- "$1" "$work/page.html"; }

# a unit that cuts toward zero is a finding, and named
judge sim:ampere
at verdict WITHIN
at ops.1.op linear
at ops.1.bias.direction 'too small'
at ops.1.bias.tap layers.0.linear_attn.in_proj_qkv
at ops.1.bias.null 'round to nearest, and every unit of docs/atoms.md that fits'
check "few groups" test "$(value ops.1.bias.groups)" -gt 1000
check "the bet has not won" test "$(value ops.1.bias.bet_log10 | cut -d. -f1)" -gt 7
check "about 5 u" test "$(value ops.1.bias.relative_u | cut -d. -f1)" = -4
at fit.sums false
at fit.tightest ampere_f16
at fit.units.0.unit ampere_f16
at fit.units.0.fits true
at fit.units.2.unit hopper_f16
at fit.units.2.fits false
check "no note" grep -q 'ampere_f16 is the tightest matrix unit of docs/atoms.md that fits' "$out"
page 'Errors on average'
page '<td>too small</td>'
page '<code>ampere_f16</code> is the tightest matrix unit that does.'

# round to nearest is none
judge sim:sequential
at notes.length 0
at ops.1.bias.direction none
at ops.1.bias.tap null
at fit.sums true
at fit.tightest library
page 'binary32 sums in some order, rounded to nearest, fit.'
check "a bias on the page" test "$(grep -c '<td>too ' "$work/page.html")" = 0
# nothing is tested where no ops are recorded
run 0 diff "$work/t4" --engine sim:sequential --tokens 1,2,3 -n 1 --free --json
at fit null
finish
