# includes.awk - the rule of which folder may include which. Input: the .c, .cc, .h, .cu and .cuh files of the
# tree, by their paths from its root. Output: one line for each include that breaks a rule.
#
# A folder may include the entries of its row, and always itself. An entry is a folder, or one header of it.
# tests/ may include everything. Nothing includes tests/, and ref/ includes neither gpu/ nor tools/.
#
# Rooms are the folders of `rooms`. A row may name rooms that stand to the left of its own, and none to the right.
#
# No header of the tree is included in or after an `extern "C" {`: a header whose functions C++ calls has this
# block itself, so that its functions have the same names wherever it is included.

BEGIN {
    rooms = "ref gpu tools/text tools/make tools/check tools/judge tools/dump tools/bench tools/report tools/cli tools/api"
    for (i = split(rooms, room_list, " "); i > 0; i--)
        rank[room_list[i]] = i

    row("ref/base", "")
    row("ref/container", "ref/base")
    row("ref/formats", "ref/base")
    row("ref/math", "ref/base ref/formats")
    row("ref/model", "ref/base ref/container ref/formats ref/math/fn_round.h")
    row("ref/ops", "ref/base ref/formats ref/math/exact.h ref/math/fn.h ref/math/law.h")
    # threads, vectors and schedules: those of reductions, then those of ops; the definition does not use them
    row("ref/fast/dot", "ref/base ref/formats ref/math")
    row("ref/fast/simd", "ref/base ref/formats ref/math ref/fast/dot")
    row("ref/fast", "ref/base ref/formats ref/math ref/ops ref/fast/dot")
    row("ref/state", "ref/base ref/formats ref/model/config.h")
    row("ref/run", "ref/base ref/container ref/formats ref/math ref/model ref/ops ref/fast ref/fast/dot ref/state")
    row("gpu", "ref/base ref/formats ref/math/fn.h ref/math/law.h ref/ops ref/run/backend.h")
    # a whole call of the model in the memory of a device
    row("gpu/step", "gpu ref/base ref/formats ref/model ref/ops ref/state ref/run")
    # the byte alphabet and the pattern, for the tokenizer of a made folder
    row("tools/make", "ref/base ref/container ref/formats ref/math ref/model tools/text/utf8.h " \
        "tools/text/pattern.h")
    # the room of check. hash: digests. read: shards, findings, and what was seen of each tensor. scan: one pass over the
    # bytes of a matrix. judge: the checks (read/checks.def). mtp: the audit of the head. loaded: what an engine holds
    row("tools/check/hash", "ref/base ref/container ref/formats ref/math ref/model")
    row("tools/check/read", "ref/base ref/container ref/formats ref/model")
    row("tools/check/scan", "ref/base ref/container ref/formats ref/math ref/fast/dot/dot.h ref/model tools/check/read")
    row("tools/check/judge", "ref/base ref/container ref/formats ref/math ref/model tools/check/read tools/check/scan " \
        "tools/make/vision.def")
    row("tools/check/mtp", "ref/base ref/container ref/model tools/check/read tools/check/scan tools/check/judge")
    row("tools/check/loaded", "ref/base ref/container ref/formats ref/math ref/model tools/check/hash tools/check/read")
    row("tools/check/floor", "ref/base ref/container ref/formats ref/model")
    # for ids of the hub
    row("tools/check/remote", "ref/base ref/container tools/check/judge/hub.h")
    row("tools/check/convert", "ref/base ref/container ref/formats ref/model")
    # for writes to a partial folder, and JSON that keeps its bytes
    row("tools/check/graft", "ref/base ref/container ref/formats ref/model tools/check/convert")

    # the room of judge. trace: recorded calls. sim: other arithmetics. bound: what a correct engine may differ by
    row("tools/judge/trace", "ref/base ref/container ref/formats ref/model ref/ops ref/state ref/run")
    # plain binary32: from ref/math only the tables of laws
    row("tools/judge/sim", "ref/base ref/formats ref/math/law.h ref/ops ref/run/backend.h ref/run/hook.h")
    # from ref/ops the types and the choices, but no reference function, and the same in compare
    bound_ops = "ref/ops/op.h ref/ops/ops.def ref/ops/args.h ref/ops/args.def ref/ops/values.h ref/ops/knobs.h " \
        "ref/ops/knob.h ref/ops/knobs.def ref/ops/param.h ref/ops/rounding.h ref/ops/act_quant.h ref/ops/kv_cache.h ref/ops/form.h "
    row("tools/judge/bound", bound_ops "ref/base ref/formats ref/math/exact.h ref/math/law.h tools/judge/sim")
    # from fault the mistakes that explain a difference
    row("tools/judge/compare", bound_ops "ref/base ref/container ref/formats ref/math/exact.h ref/math/law.h ref/model " \
        "ref/state ref/run tools/judge/trace tools/judge/sim tools/judge/bound tools/judge/fault/mistakes.h tools/judge/fault/site.h")
    row("tools/judge/fault", "ref/base ref/container ref/formats ref/math ref/model ref/ops ref/fast ref/state ref/run " \
        "gpu/gpu.h tools/make tools/check/read tools/judge/trace tools/judge/sim tools/judge/bound tools/judge/compare")
    # inputs are quantized like checkpoints; from fault the mistakes that inputs must reveal
    row("tools/judge/gate", "ref/base ref/container ref/formats ref/math ref/model ref/ops ref/state ref/run " \
        "tools/make tools/judge/bound tools/judge/compare tools/judge/fault/mistakes.h tools/judge/fault/op_faults.h")
    # ref/run, ref/state: runs the heads; head_run.h: the struct in which check reports the result
    row("tools/judge/accept", "ref/base ref/container ref/formats ref/model ref/ops/knobs.h ref/ops/knob.h ref/run ref/state " \
        "tools/check/mtp/head_run.h")
    # intervals of rates, and the verdicts that the rates count
    row("tools/judge/quality", "ref/base ref/container ref/formats ref/model ref/ops/knobs.h ref/ops/knob.h ref/run tools/judge/bound " \
        "tools/judge/compare tools/judge/accept/interval.h")

    # converts files of other programs to steps, and tokens that come as text to ids
    row("tools/dump", "ref/base ref/container ref/formats ref/math/fn.h ref/model ref/ops tools/judge/trace tools/text")
    row("tools/text", "ref/base ref/container")
    # the room of report. part: JSON, XML, HTML, printing. check, diff: one report each, in all its forms. result: the
    # documents of the other commands
    row("tools/report/part", "ref/base ref/container ref/samebit.h")
    row("tools/report/check", "ref/base ref/container tools/check/read tools/check/judge tools/check/mtp " \
        "tools/check/loaded tools/report/part ref/samebit.h")
    row("tools/report/diff", "ref/base ref/container ref/run ref/ops/op.h ref/ops/ops.def tools/judge/bound " \
        "tools/judge/compare/verdict.h tools/judge/quality tools/report/part")
    row("tools/report/result", "ref/base ref/container ref/formats ref/fast/dot/dot.h ref/model ref/ops ref/state ref/run " \
        "tools/check/hash tools/check/floor tools/check/graft tools/judge/trace tools/judge/bound tools/judge/compare tools/judge/gate tools/judge/accept " \
        "tools/judge/quality tools/bench tools/report/part tools/report/diff")
    # from the reductions, the commands need the check at start and the name of the chosen kernels
    check = "tools/check/hash tools/check/read tools/check/scan tools/check/judge tools/check/mtp tools/check/loaded " \
        "tools/check/floor tools/check/remote tools/check/convert tools/check/graft "
    judge = "tools/judge/trace tools/judge/sim tools/judge/bound tools/judge/compare tools/judge/fault tools/judge/gate " \
        "tools/judge/accept tools/judge/quality tools/report/part tools/report/check tools/report/diff tools/report/result "
    row("tools/cli", check judge "ref/base ref/container ref/formats ref/math/start.h ref/fast/dot/dot.h ref/model ref/ops " \
        "ref/state ref/run gpu/gpu.h gpu/step/step.h tools/make tools/text tools/dump tools/bench ref/samebit.h")
    # the implementation of ref/samebit.h
    row("tools/api", "ref/samebit.h ref/base ref/container ref/formats ref/math/start.h ref/fast/dot/dot.h ref/model ref/ops " \
        "ref/run ref/state tools/judge/bound tools/judge/compare tools/judge/gate")
    # a step on a device, and its measurement; the traffic of its kernels, which is computed without a device
    row("tools/bench", "ref/base ref/container ref/formats ref/math ref/model ref/ops ref/fast ref/fast/dot ref/state ref/run " \
        "gpu/gpu.h gpu/kernel/cost.h gpu/kernel/cost.def gpu/meter/meter.h gpu/meter/counter.h gpu/step/step.h " \
        "tools/check/read tools/check/scan tools/check/judge tools/check/floor tools/make")

    # foreign headers that only some folders may include
    only("jansson.h", "ref/container tools/text tools/check tools/cli tools/report tests")
    only("pcre2.h", "ref/model tools/text tests")
    only("utf8proc.h", "tools/text tests")
    only("minizip/unzip.h", "tools/dump")
    only("zlib.h", "tools/dump tests")
    only("openssl/evp.h", "tools/check tests/check")
    only("xxhash.h", "ref/base tests")
    only("getopt.h", "tools/cli")
    only("cmocka.h", "tests")
    only("mpfr.h", "tests")
    only("gmp.h", "tests")
    only("immintrin.h", "ref/fast/simd tools/bench tools/check tools/make tests")
    only("cpuid.h", "ref/fast/simd tools/bench tools/check tests")
    only("math.h", "tools tests gpu")
    only("tgmath.h", "")
    only("complex.h", "")
    only("fenv.h", "tests")
}

function row(folder, entries,    list, n, i)
{
    known[folder] = 1
    allow[folder, folder] = 1
    n = split(entries, list, " ")
    for (i = 1; i <= n; i++) {
        allow[folder, list[i]] = 1
        if (rank[room_of(list[i])] > rank[room_of(folder)])
            print "tools/lint/includes.awk: the row of " folder " names " list[i] ", a room to its right"
    }
}

# the room of a path: "ref", "gpu", or a folder of tools/
function room_of(path,    part)
{
    split(path, part, "/")
    return part[1] == "tools" ? "tools/" part[2] : part[1]
}

function only(header, folders)
{
    limited[header] = 1
    places[header] = folders
}

function complain(what)
{
    printf "%s:%d: %s\n", FILENAME, FNR, what
}

# the folder of the table that a path belongs to: the longest beginning that has a row
function folder_of(path,    part)
{
    part = path
    while (sub(/\/[^\/]*$/, "", part))
        if (part in known || part == "tests")
            return part
    return ""
}

function check_own(target,    from, to)
{
    from = folder_of(FILENAME)
    if (target !~ /^(ref|gpu|tools|tests)\//) {
        complain("include \"" target "\": write the path from the root of the tree")
        return
    }
    if (from == "tests")
        return
    to = folder_of(target)
    if (from == "")
        complain("this folder has no row in tools/lint/includes.awk")
    else if (!((from, to) in allow) && !((from, target) in allow))
        complain(from " may not include " target)
}

function check_foreign(header,    list, n, i)
{
    if (!(header in limited))
        return
    n = split(places[header], list, " ")
    for (i = 1; i <= n; i++)
        if (index(FILENAME, list[i] "/") == 1)
            return
    complain("<" header "> is for " (n ? places[header] : "no folder") " only")
}

FNR == 1 { in_c = 0 }
/^[ \t]*extern "C" {/ { in_c = 1 }
in_c && /^[ \t]*#[ \t]*include[ \t]*"[^"]*\.h"/ {
    complain("include after extern \"C\" {: the header itself must have this block")
}

match($0, /^[ \t]*#[ \t]*include[ \t]*["<][^">]+[">]/) {
    word = substr($0, RSTART, RLENGTH)
    own = word ~ /"$/
    sub(/^[^"<]*["<]/, "", word)
    sub(/[">]$/, "", word)
    if (own)
        check_own(word)
    else
        check_foreign(word)
}
