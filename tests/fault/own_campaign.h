/* own_campaign.h - the campaign of a test file, in its own folder. */
#ifndef SB_TESTS_OWN_CAMPAIGN_H
#define SB_TESTS_OWN_CAMPAIGN_H

#include <unistd.h>

#include "tests/unit/scratch.h"
#include "tools/judge/fault/campaign_parts.h"

static sb_campaign *campaign;
static scratch_path folder;

/* The folder is set here; the other options are the caller's. campaign_begin and campaign_end
 * return 0, or nonzero if the fixture failed. */
static inline int campaign_begin(sb_campaign_options options)
{
    sb_error err = {""};
    folder = scratch_new();
    options.folder = folder.text;
    return (int)sb_campaign_new(&options, &campaign, &err);
}

static inline int campaign_end(void)
{
    sb_campaign_free(campaign);
    return rmdir(folder.text);
}

#endif
