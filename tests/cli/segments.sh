#!/usr/bin/env bash
# diff with few values: segments between recorded values (T-91), and hidden states alone (T-92).
. "$(dirname "$0")/lib.bash"
t1=$work/t1
run 0 make "$t1" --preset T1 --recipe mistakes
hidden='embed,layers.*.output,norm'
kernels='embed,*layernorm,*in_proj_*,*core_out,*linear_attn.norm,*out_proj,*_attn.?_proj,*attn_residual'
kernels+=',*mlp.gate,*router_ids,*mlp.out,*.output,norm,logits,mtp.*'
sim() { # STATUS ENGINE ARG...
    local status=$1 engine=$2
    shift 2
    run "$status" diff "$t1" --engine "sim:$engine" --tokens 1,2,3,9,77,5 -n 4 --draft 2 "$@"
}

# a correct engine with fused kernels passes, and the report says what was judged how
sim 0 sequential --forced --taps "$kernels" --json
at verdict WITHIN
at judged.not_judged 0
check "nothing was judged inside segments" test "$("$helpers/json_at" judged.inside < "$out")" -gt 100
sim 0 sequential --forced --taps "$kernels"
says 'inside segments between recorded values, 0.0% not judged'
# a fault inside a segment is named with its ends
sim 1 sequential+kv_map_mod --forced --taps "$kernels" --json
at first_failure.layer 3
at first_failure.after layers.3.self_attn.q_proj
at first_failure.tap layers.3.self_attn.core_out
sim 1 sequential+kv_map_mod --forced --taps "$kernels"
says 'layer 3, attention (between layers.3.self_attn.q_proj and layers.3.self_attn.core_out)'

# without the chosen experts nothing is known of what is computed from them
without=${kernels/,\*router_ids/}
sim 4 sequential --forced --taps "$without"
says 'never judged: mlp.router_ids (linear attention)'
says 'SKIPPED: '
sim 4 sequential --forced --taps "$without" --need-ops 0.9
says '; needed: 0.9'
sim 0 sequential --forced --taps "$without" --need-ops 0.5
says 'WITHIN: '
sim 0 sequential --forced --taps "$kernels" --need-ops 1
refused 2 diff "$t1" --engine sim:sequential --tokens 1 --need-ops 1.5
refused 2 diff "$t1" --engine sim:sequential --tokens 1 --need-ops 0.5 --free

# without a shared expert (R-17) the experts are judged up to their sum, too
t7=$work/t7
run 0 make "$t7" --preset T7 --recipe mistakes
plain() { run "$1" diff "$t7" --engine "sim:$2" --tokens 1,2,3,9,77,5 -n 4 --forced --taps "$kernels" --json; }
plain 0 sequential
at judged.not_judged 0
plain 1 sequential+gate_up_swapped
at first_failure.layer 0
at first_failure.after layers.0.post_attention_layernorm
at first_failure.tap layers.0.mlp.out

# hidden states alone: a correct engine passes, and a fault names its layer
for profile in exact hf vllm; do
    sim 0 sequential --taps "$hidden" --profile $profile --json
    at verdict WITHIN
    at hidden.0.verdict IDENTICAL
    sim 1 sequential+kv_map_mod --taps "$hidden" --profile $profile --json
    at first_failure.layer 3
    at first_failure.op hidden
    at first_failure.tap layers.3.output
    at first_failure.after layers.2.output
done
sim 1 sequential+head_map_mod --taps "$hidden"
says 'layer 0, hidden (between embed and layers.0.output)'
finish
