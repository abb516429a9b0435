/* fuzz_drafts.c - any bytes as a file of drafts, and the lookup of its rounds. */
#include "tests/fuzz/fuzz.h"

#include "tools/cli/draft_file.h"

const char fuzz_name[] = "drafts";
unsigned long fuzz_accepted;

/* E-20: a distribution ascends, has the draft, and has a sum of nearly 1 */
static void check_odds(const sb_draft_odds *odds, uint32_t draft)
{
    double sum = 0;
    int own = 0;
    for (size_t i = 0; i < odds->count; i++) {
        FUZZ_CHECK(i == 0 || odds->ids[i - 1] < odds->ids[i]);
        FUZZ_CHECK(odds->p[i] >= 0 && odds->p[i] <= 1);
        own += odds->ids[i] == draft && odds->p[i] > 0;
        sum += (double)odds->p[i];
    }
    FUZZ_CHECK(own == 1 && sum > 0.998 && sum < 1.002);
}

/* Every entry is found where it belongs, and nowhere else. */
static void check_lookup(const sb_draft_file *f, const sb_drafts *d)
{
    const sb_drafts *found = NULL;
    sb_error err = {{0}};
    FUZZ_CHECK(sb_draft_file_find(f, d->sequence, d->round, d->position, &found, &err) == SB_OK);
    FUZZ_CHECK(found == d || f->form == SB_DRAFTS_lists);
    if (f->form == SB_DRAFTS_lists)
        return;
    sb_status status =
        sb_draft_file_find(f, d->sequence, d->round, SB_POSITION_LIMIT, &found, &err);
    FUZZ_CHECK((status == SB_OK) == (f->form == SB_DRAFTS_rounds && !d->has_position));
    if (status)
        fuzz_check_refusal(status, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sb_draft_file *f = NULL;
    sb_error err = {{0}};
    sb_status status = sb_draft_file_parse((const char *)data, size, "input", &f, &err);
    if (status != SB_OK) {
        FUZZ_CHECK(!f);
        fuzz_check_refusal(status, &err);
        return 0;
    }
    fuzz_accepted++;
    FUZZ_CHECK(f->count > 0 && f->most <= SB_MAX_TREE && f->depth <= SB_MAX_DRAFTS);
    for (size_t i = 0; i < f->count; i++) {
        const sb_drafts *d = &f->entries[i];
        FUZZ_CHECK(d->count <= f->most && d->depth <= f->depth && d->depth <= d->count);
        FUZZ_CHECK(d->parents || d->depth == d->count);
        for (size_t k = 0; k < d->count && d->parents; k++)
            FUZZ_CHECK(d->parents[k] >= -1 && d->parents[k] < (int)k);
        for (size_t k = 0; k < d->count && d->odds; k++)
            check_odds(&d->odds[k], d->ids[k]);
        check_lookup(f, d);
    }
    status = sb_draft_file_check(f, 1000, 2, &err);
    if (status)
        fuzz_check_refusal(status, &err);
    sb_draft_file_free(f);
    return 0;
}
