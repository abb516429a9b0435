/* made_files.h - the folder that a fuzz target fills anew for every input. */
#ifndef SB_TESTS_FUZZ_MADE_FILES_H
#define SB_TESTS_FUZZ_MADE_FILES_H

#include <stddef.h>

/* Everything in it goes, so that nothing of the input before it stays; links are not followed. */
void files_empty(const char *folder);

void files_write(const char *folder, const char *name, const void *bytes, size_t size);
void files_write_text(const char *folder, const char *name, const char *text);

/* A file of `from` under the same name, as a link: nobody writes into it. */
void files_link(const char *from, const char *name, const char *folder);

/* What a file holds, with a NUL behind it; asserts that it is there. */
char *files_text(const char *folder, const char *name);

#endif
