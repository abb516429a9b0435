# includes.awk - the rule of which folder may include which. Input: the .c, .cc, .h, .cu and .cuh files of the
# tree, by their paths from its root. Output: one line for each include that breaks the rule.
#
#   container -> formats -> model -> ops -> fast -> state -> run -> compare -> report
#
# A folder may include the entries of its row, and always itself. An entry is a folder, or one header of it.
# tests/ may include everything. Nothing includes tests/, and ref/ includes neither gpu/ nor tools/.

BEGIN {
    row("ref/base", "")
    row("ref/container", "ref/base")
    row("ref/formats", "ref/base")
    row("ref/math", "ref/base ref/formats")
    row("ref/model", "ref/base ref/container ref/formats")
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
    row("tools/hash", "ref/base ref/container ref/formats ref/math ref/model")
    row("tools/floor", "ref/base ref/container ref/formats ref/model")
    row("tools/check", "ref/base ref/container ref/formats ref/math ref/fast/dot/dot.h ref/model tools/hash tools/make/vision.def " \
        "tools/report/xml.h tools/report/print.h tools/report/page.h ref/samebit.h")
    # for ids of the hub
    row("tools/remote", "ref/base ref/container tools/check/hub.h")
    row("tools/convert", "ref/base ref/container ref/formats ref/model")
    # for writes to a partial folder, and JSON that keeps its bytes
    row("tools/graft", "ref/base ref/container ref/formats ref/model tools/convert/convert.h " \
        "tools/convert/plan.h")
    # ref/run, ref/state: runs the heads; head_run.h: the struct in which check reports the result
    row("tools/accept", "ref/base ref/container ref/formats ref/model ref/ops/knobs.h ref/run ref/state " \
        "tools/check/head_run.h")
    row("tools/trace", "ref/base ref/container ref/formats ref/model ref/ops ref/state ref/run")
    # converts files of other programs to steps, and tokens that come as text to ids
    row("tools/dump", "ref/base ref/container ref/formats ref/math/fn.h ref/model ref/ops tools/trace tools/text")
    # plain binary32: from ref/math only the tables of laws
    row("tools/sim", "ref/base ref/formats ref/math/law.h ref/ops ref/run/backend.h ref/run/hook.h")
    # from ref/ops the types and the choices, but no reference function; from tools/fault the
    # mistakes that explain a difference
    row("tools/compare", "ref/base ref/container ref/formats ref/math/exact.h ref/math/law.h ref/model " \
        "ref/ops/op.h ref/ops/ops.def ref/ops/args.h ref/ops/args.def ref/ops/values.h ref/ops/knobs.h ref/ops/knobs.def ref/ops/param.h " \
        "ref/ops/rounding.h ref/ops/act_quant.h ref/ops/kv_cache.h ref/ops/form.h ref/state ref/run tools/trace tools/sim " \
        "tools/fault/mistakes.h")
    row("tools/fault", "ref/base ref/container ref/formats ref/math ref/model ref/ops ref/fast ref/state ref/run " \
        "gpu/gpu.h tools/make tools/check tools/hash tools/trace tools/sim tools/compare")
    # intervals of rates, and the verdicts that the rates count
    row("tools/quality", "ref/base ref/container ref/formats ref/model ref/ops/knobs.h ref/run tools/compare " \
        "tools/trace tools/accept/interval.h")
    # inputs are quantized like checkpoints; from tools/fault the mistakes that inputs must reveal
    row("tools/gate", "ref/base ref/container ref/formats ref/math ref/model ref/ops ref/state ref/run tools/compare " \
        "tools/make tools/fault/mistakes.h tools/fault/op_faults.h")
    row("tools/text", "ref/base ref/container")
    row("tools/report", "ref/base ref/container/show.h ref/container/file.h ref/container/json_out.h ref/run ref/ops/op.h ref/ops/ops.def " \
        "tools/compare/verdict.h tools/quality ref/samebit.h")
    # from the reductions, the commands need the check at start and the name of the chosen kernels
    row("tools/cli", "ref/base ref/container ref/formats ref/math/start.h ref/fast/dot/dot.h ref/model " \
        "ref/ops ref/state ref/run gpu/gpu.h tools/make tools/hash tools/check tools/floor tools/remote tools/convert " \
        "tools/graft tools/accept tools/text tools/trace tools/dump tools/sim tools/compare tools/fault " \
        "tools/quality tools/report tools/bench tools/gate ref/samebit.h")
    # the implementation of ref/samebit.h
    row("tools/api", "ref/samebit.h ref/base ref/container ref/formats ref/math/start.h ref/fast/dot/dot.h ref/model ref/ops " \
        "ref/run ref/state tools/compare tools/gate")
    # a step on a device, and its measurement; the traffic of its kernels, which is computed without a device
    row("tools/bench", "ref/base ref/container ref/formats ref/math ref/model ref/ops ref/fast ref/fast/dot ref/state ref/run " \
        "gpu/gpu.h gpu/kernel/cost.h gpu/kernel/cost.def gpu/meter/meter.h gpu/meter/counter.h gpu/step/step.h " \
        "tools/check tools/floor tools/make")

    # foreign headers that only some folders may include
    only("jansson.h", "ref/container tools/text tools/check tools/graft tools/cli tools/report tests")
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
    for (i = 1; i <= n; i++)
        allow[folder, list[i]] = 1
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
