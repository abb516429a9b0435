/* campaign_parts.h - shared by the implementation files of campaign.h. */
#ifndef SB_FAULT_CAMPAIGN_PARTS_H
#define SB_FAULT_CAMPAIGN_PARTS_H

#include "tools/judge/fault/campaign.h"
#include "tools/judge/fault/trial.h"

/* Runs a trial and adds its signs to *found. Several may run at a time. */
sb_status sb_campaign_see(const sb_trial *trial, sb_finding_of_fault *found, sb_error *err);

/* Sets the result of *found and adds it to the score. */
void sb_campaign_judge(sb_campaign *campaign, sb_finding_of_fault *found);

/* Adds a correct engine to the counts of its kind on an axis. found NULL: only makes the row. */
void sb_campaign_count(sb_campaign *campaign, const char *axis, const char *name,
                       const sb_finding_of_fault *found);

uint64_t sb_campaign_seed(const sb_campaign *campaign);
int sb_campaign_levels(const sb_campaign *campaign);

#endif
