#include "tools/cli/drafter.h"

#include <string.h>

#include "ref/container/file.h"
#include "ref/container/show.h"

sb_status sb_drafter_read(sb_drafter *d, sb_error *err)
{
    const int external = d->name && strcmp(d->name, "external") == 0;
    d->kind = SB_DRAFTER_head;
    if (external && !d->path)
        return sb_fail(err, SB_ERR_USAGE, "--drafter external; expected --draft-file as well");
    if (d->path && d->name && !external)
        return sb_fail(err, SB_ERR_USAGE,
                       "--drafter %s and --draft-file exclude each other: the file has the drafts",
                       SB_SHOW(d->name));
    if (d->path) {
        d->kind = SB_DRAFTER_file;
        return sb_draft_file_load(d->path, &d->file, err);
    }
    if (!d->name || strcmp(d->name, "mtp") == 0)
        return SB_OK;
    if (sb_is_folder(d->name)) {
        d->kind = SB_DRAFTER_eagle3;
        return SB_OK;
    }
    d->kind = SB_DRAFTER_ngram;
    return sb_ngram_parse(d->name, "--drafter", &d->ngram, err);
}

void sb_drafter_free(sb_drafter *d)
{
    sb_draft_file_free(d->file);
    d->file = NULL;
}

const char *sb_drafter_name(const sb_drafter *d)
{
    if (d->kind == SB_DRAFTER_head)
        return NULL;
    return d->kind == SB_DRAFTER_file ? "external" : d->name;
}

sb_status sb_drafter_propose(const sb_drafter *d, const sb_draft_place *at, uint32_t *room,
                             sb_round_ask *ask, sb_error *err)
{
    const sb_drafts *drafts = NULL;
    if (d->kind == SB_DRAFTER_ngram) {
        ask->drafts = sb_ngram_propose(&d->ngram, at->text, at->count, ask->drafts, room);
        ask->given = room;
    }
    if (d->kind != SB_DRAFTER_file)
        return SB_OK;
    sb_status status =
        sb_draft_file_find(d->file, at->sequence, at->round, at->position, &drafts, err);
    if (status)
        return status;
    if (at->needs_odds && drafts->count && !drafts->odds)
        return sb_draft_file_lacks_odds(d->file, drafts, err);
    ask->drafts = drafts->count;
    ask->given = drafts->ids;
    ask->odds = drafts->odds;
    ask->parents = drafts->parents;
    return SB_OK;
}
