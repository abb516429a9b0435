/* dumped.h - a file of another program on the command line; options supply what the file leaves
 * open (docs/dumps.md). */
#ifndef SB_CLI_DUMPED_H
#define SB_CLI_DUMPED_H

#include "ref/model/config.h"
#include "tools/cli/prompt.h"
#include "tools/dump/dump.h"

typedef struct sb_dumped {
    const char *as, *map;   /* --as, --map */
    sb_prompts from;        /* what the engine was fed */
    sb_sequence *sequences; /* (count) of `from`, loaded when needed */
    size_t count;
    const uint32_t **ids;
    size_t *id_count;
    sb_dump_options options; /* of all opened dumps */
} sb_dumped;

/* The rows --as and --map. */
#define SB_DUMPED_OPTS(dumped)                                                                     \
    {"as", 0, SB_OPT_STRING, &(dumped)->as, "KIND", "kind of a file of another program"},          \
    {                                                                                              \
        "map", 0, SB_OPT_INPUT, &(dumped)->map, "F", "JSON that maps its arrays to taps"           \
    }

/* True if sb_dumped_open reads the path: the user named a reader, or the path is no trace folder
 * and a reader recognizes it. */
int sb_dumped_is(const sb_dumped *dumped, const char *path);

/* config and folder: of the checkpoint, both NULL if none was given. Loads the token ids on first
 * use; call sb_dumped_clear to release them after all dumps are closed. */
sb_status sb_dumped_open(sb_dumped *dumped, const char *path, const sb_config *config,
                         const char *folder, sb_dump **out, sb_error *err);
void sb_dumped_clear(sb_dumped *dumped);

/* Prints the readers, one per line, or as JSON. */
sb_status sb_dumped_kinds(int as_json, sb_error *err);

#endif
