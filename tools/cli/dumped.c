#include "tools/cli/dumped.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "tools/cli/cli.h"
#include "tools/judge/trace/trace_file.h"
#include "tools/report/part/document.h"

static int is_trace(const char *path)
{
    struct stat st;
    char *list = sb_path_join(path, SB_TRACE_LIST);
    int found = list && stat(list, &st) == 0;
    free(list);
    return found;
}

int sb_dumped_is(const sb_dumped *d, const char *path)
{
    return d->as != NULL || (!is_trace(path) && sb_dump_find(path) != NULL);
}

/* Loads the token lists in the form for the readers. */
static sb_status load(sb_dumped *d, const char *folder, sb_error *err)
{
    if (d->ids || !sb_prompts_given(&d->from))
        return SB_OK;
    sb_status status = sb_prompts_check(&d->from, err);
    if (!status)
        status = sb_prompts_read(&d->from, folder, NULL, &d->sequences, &d->count, err);
    if (status)
        return status;
    d->ids = sb_alloc(d->count, sizeof *d->ids);
    d->id_count = sb_alloc(d->count, sizeof *d->id_count);
    if (!d->ids || !d->id_count)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    for (size_t i = 0; i < d->count; i++) {
        d->ids[i] = d->sequences[i].ids;
        d->id_count[i] = d->sequences[i].count;
    }
    return SB_OK;
}

sb_status sb_dumped_open(sb_dumped *d, const char *path, const sb_config *config,
                         const char *folder, sb_dump **out, sb_error *err)
{
    sb_status status = load(d, folder, err);
    d->options = (sb_dump_options){.as = d->as,
                                   .ids = d->ids,
                                   .id_count = d->id_count,
                                   .sequence_count = d->count,
                                   .map = d->map,
                                   .config = config,
                                   .vocab_size = config ? config->vocab_size : 0,
                                   .layers = config ? config->layers : 0,
                                   .tokenizer = folder};
    return status ? status : sb_dump_open(path, &d->options, out, err);
}

void sb_dumped_clear(sb_dumped *d)
{
    sb_sequences_free(d->sequences, d->count);
    free(d->ids);
    free(d->id_count);
    d->sequences = NULL;
    d->ids = NULL;
    d->id_count = NULL;
    d->count = 0;
}

sb_status sb_dumped_kinds(int as_json, sb_error *err)
{
    if (as_json) {
        json_t *document = sb_document("trace"), *rows = json_array();
        for (size_t i = 0; i < sb_dump_count(); i++) {
            json_t *row = json_object();
            SB_PUT(row, "name", sb_dump_at(i)->name);
            SB_PUT(row, "what", sb_dump_at(i)->what);
            SB_ADD(rows, row);
        }
        SB_PUT(document, "kinds", rows);
        return sb_print_document(document, err);
    }
    for (size_t i = 0; i < sb_dump_count(); i++)
        printf("%-16s %s\n", sb_dump_at(i)->name, sb_dump_at(i)->what);
    return SB_OK;
}
