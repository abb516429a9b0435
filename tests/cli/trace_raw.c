/* trace_raw.c - for the scripts of this folder: trace_raw TRACE TAP prints the values of one tap of
 * a trace, or of one array of states (state.layers...), as binary32, step after step. Of the logits
 * of a prompt it prints only the last row. */
#include <stdio.h>
#include <string.h>

#include "tools/judge/trace/read.h"

static sb_status print_rows(const sb_step_value *value, size_t first)
{
    size_t count = (value->rows - first) * value->cols;
    return fwrite(value->data + first * value->cols, sizeof(float), count, stdout) == count
               ? SB_OK
               : SB_ERR_IO;
}

static sb_status take(void *ctx, const sb_step *step, sb_error *err)
{
    const char *name = ctx;
    (void)err;
    const sb_step_values *from = &step->taps;
    if (strncmp(name, "state.", 6) == 0) {
        if (!step->state_count || step->states[0].position == 0) /* empty */
            return SB_OK;
        from = &step->states[0].pieces;
        name += 6;
    }
    const sb_step_value *value = sb_step_find(from, name);
    if (!value || !value->data)
        return SB_OK;
    int logits = strcmp(name, "logits") == 0;
    return print_rows(value, logits && step->rows[0].kind == SB_CALL_prompt ? value->rows - 1 : 0);
}

int main(int argc, char **argv)
{
    sb_trace *trace = NULL;
    sb_error err;
    if (argc != 3)
        return 2;
    sb_status status = sb_trace_open(argv[1], &trace, &err);
    if (!status)
        status = sb_trace_play(trace, take, argv[2], &err);
    if (status)
        fprintf(stderr, "trace_raw: %s\n", err.text);
    sb_trace_close(trace);
    return status ? 1 : 0;
}
