/* side_template.h - check 51: can a chat template be parsed? */
#ifndef SB_CHECK_SIDE_TEMPLATE_H
#define SB_CHECK_SIDE_TEMPLATE_H

#include <stddef.h>

/* 1 if every tag of a Jinja template ends and every block is closed; else 0, and `why` names the
 * wrong line. Also 1 if only an interpreter could tell. */
int sb_template_is_whole(const char *text, char *why, size_t room);

#endif
