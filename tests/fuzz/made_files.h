/* made_files.h - the folder that a fuzz target fills again for every input. */
#ifndef SB_TESTS_FUZZ_MADE_FILES_H
#define SB_TESTS_FUZZ_MADE_FILES_H

#include <stddef.h>

/* Removes everything in the folder, so that nothing remains from the input before. Links are not
 * followed. */
void files_empty(const char *folder);

void files_write(const char *folder, const char *name, const void *bytes, size_t size);
void files_write_text(const char *folder, const char *name, const char *text);

/* Links a file of `from` under the same name. It must not be written to. */
void files_link(const char *from, const char *name, const char *folder);

/* The content of a file, followed by a NUL; asserts that the file exists. */
char *files_text(const char *folder, const char *name);

#endif
