#!/usr/bin/env bash
# bench plan: what is extrapolated to more layers is compared with a checkpoint that has them, and every figure of the
# document with its formula. Times are not asserted.
. "$(dirname "$0")/lib.bash"
make_checkpoint few --preset T4 --layers 4
make_checkpoint more --preset T4 --layers 12
make_checkpoint mtp --preset T4 --layers 4 --no-mtp

# holds TEXT: an expression of awk, in which <PATH> is a value of the document, is true
holds() {
    local text=$1 path
    while [[ $text =~ \<([a-z0-9_.]+)\> ]]; do
        path=${BASH_REMATCH[1]}
        text=${text//<$path>/($(value "$path"))}
    done
    check "$1: $text" awk "function near(a, b) { return a - b <= 1e-9 * b && b - a <= 1e-9 * b } BEGIN { exit !($text) }"
}

# --- the size of the whole -------------------------------------------------------------------------------
run 0 bench plan "$work/more" --passes 1 --json
bytes=$(value whole.bytes) tensors=$(value whole.tensors)
holds "<whole.bytes> == <here.bytes> && <token_factor> == 1"
run 0 bench plan "$work/few" --against "$work/few" --extrapolate 12 --cores 1,20 --tokens 4 --passes 1 --json
at what plan
at whole.layers 12
holds "<whole.bytes> == $bytes && <whole.tensors> == $tensors && <here.bytes> < $bytes"
check "the bytes are not those of the tensors" test "$("$SAMEBIT" info "$work/more" | sed -n 's/^tensors: .* bound (\([0-9]*\) bytes.*/\1/p')" = "${bytes%.0}"

# --- each row ----------------------------------------------------------------------------------------------
i=0
for row in headers:tensors check:bytes against:bytes run:tokens diff:tokens compare:tokens accept:tokens; do
    r=rows.$i whole=rows.$i.extrapolated
    at $r.name "${row%:*}"
    at $r.formula "${row#*:}"
    case ${row#*:} in
        tensors | bytes) holds "near(<$whole.processor_seconds>, <$r.measured.processor_seconds> * <whole.${row#*:}> / <here.${row#*:}>)" ;;
        tokens)
            holds "near(<$whole.processor_seconds>, (d = <$r.measured_more_tokens.processor_seconds> - <$r.measured.processor_seconds>) > 0 ? d / 4 * <token_factor> : 0)"
            holds "<$whole.bytes> >= <whole.bytes>" ;;
    esac
    at $whole.least.1.cores 20.0
    holds "near(<$whole.least.0.seconds>, <$whole.processor_seconds>) && near(<$whole.least.1.seconds> * 20, <$whole.processor_seconds>)"
    holds "<$r.measured.peak_bytes> > 1e5"
    i=$((i + 1))
done
holds "<token_factor> > 1"

# --- what cannot be measured is named ------------------------------------------------------------------
run 0 bench plan "$work/mtp" --passes 1
says 'against  not measured: needs --against'
says 'accept   not measured: '
says 'check    once'
refused 2 bench plan
refused 2 bench plan "$work/few" --cores 2,0
refused 2 bench plan "$work/few" --tokens 65
refused 3 bench plan "$work/none"
finish
