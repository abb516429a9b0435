/* clean.h - text that may hold anything, made fit for every report. */
#ifndef SB_CHECK_CLEAN_H
#define SB_CHECK_CLEAN_H

/* In place: a '?' for each byte that is no part of a UTF-8 character which XML and JSON allow. */
void sb_clean_text(char *text);

#endif
