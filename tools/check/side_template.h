/* side_template.h - check 51: is a chat template one that can be read? */
#ifndef SB_CHECK_SIDE_TEMPLATE_H
#define SB_CHECK_SIDE_TEMPLATE_H

#include <stddef.h>

/* Whether every tag of a Jinja template ends and every block is closed; else why says which line is
 * wrong. What cannot be judged without an interpreter is whole. */
int sb_template_is_whole(const char *text, char *why, size_t room);

#endif
