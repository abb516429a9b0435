/* meta.c - the metamorphic gate of ref/samebit.h. */
#include "tools/judge/gate/meta.h"

#include "ref/container/show.h"
#include "tools/api/cases.h"
#include "tools/judge/gate/element.h"

/* The caller's kernel and its context. */
typedef struct caller {
    samebit_kernel kernel;
    void *ctx;
} caller;

static sb_status call(void *ctx, const sb_gate_case *c, const sb_gate_target *out)
{
    const caller *from = ctx;
    sb_gate_case variant = *c;
    samebit_case handle;
    samebit_room rooms[SB_GATE_OUTPUTS];
    sb_api_case(&variant, &handle);
    for (size_t i = 0; i < c->outputs; i++)
        rooms[i] = (samebit_room){sb_dtype_name(out[i].dtype), out[i].data, out[i].bytes};
    const int ended = from->kernel(from->ctx, &handle, rooms);
    sb_api_came_back();
    return ended ? SB_ERR_USAGE : SB_OK;
}

static void show_row(const sb_gate_meta_row *from, sb_gate_meta_kind kind, samebit_meta_row *to)
{
    to->calls = from->calls;
    to->elements = from->elements;
    SB_API_TEXT(to->name, sb_gate_meta_name(kind));
    SB_API_TEXT(to->verdict, sb_verdict_name(from->verdict));
    SB_API_TEXT(to->words, from->words);
}

static sb_status take_dtypes(const samebit_case *c, const char *const *dtypes,
                             sb_gate_meta_options *options, sb_error *err)
{
    for (size_t i = 0; dtypes && i < c->c->outputs; i++) {
        if (dtypes[i] && !sb_dtype_find(dtypes[i], &options->dtype[i]))
            return sb_fail(err, SB_ERR_USAGE, "%s: '%s' is not a dtype of safetensors",
                           c->output[i].text, SB_SHOW(dtypes[i]));
        if (dtypes[i] && !sb_element_is_value(options->dtype[i]) &&
            !sb_element_is_whole(options->dtype[i]))
            return sb_fail(err, SB_ERR_USAGE, "%s: %s is not a type of outputs", c->output[i].text,
                           dtypes[i]);
    }
    return SB_OK;
}

samebit_status samebit_case_metamorphic(const samebit_case *c, samebit_kernel kernel, void *ctx,
                                        const char *const *dtypes, unsigned repeats,
                                        samebit_meta *out, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(c && kernel && out);
    _Static_assert((int)SB_GATE_METAS <= (int)SAMEBIT_META_ROWS, "room for all");
    sb_error *error = sb_api_error(err);
    caller from = {kernel, ctx};
    sb_gate_meta_options options = {.kernel = call, .ctx = &from, .repeats = repeats};
    sb_gate_meta found;
    samebit_meta shown = {.rows = SB_GATE_METAS};
    /* finds a wrong size before the many calls */
    sb_status status = sb_api_give(out, out->size, &shown, sizeof shown.size, error);
    if (!status)
        status = take_dtypes(c, dtypes, &options, error);
    if (!status)
        status = sb_api_start(error);
    if (!status)
        status = sb_gate_meta_run(c->c, &options, &found, error);
    if (status)
        return sb_api_status(status);
    shown.status = sb_api_verdict(found.verdict);
    SB_API_TEXT(shown.words, found.words);
    for (int k = 0; k < SB_GATE_METAS; k++)
        show_row(&found.row[k], (sb_gate_meta_kind)k, &shown.row[k]);
    status = sb_api_give(out, out->size, &shown, sizeof shown, error);
    return status ? sb_api_status(status) : shown.status;
}
