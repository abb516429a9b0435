/* dumped.h - a file of another program on the command line: what it leaves open is asked from the
 * user (docs/dumps.md). */
#ifndef SB_CLI_DUMPED_H
#define SB_CLI_DUMPED_H

#include "ref/model/config.h"
#include "tools/cli/tokens.h"
#include "tools/dump/dump.h"

typedef struct sb_dumped {
    const char *as, *map;             /* --as, --map */
    const char *tokens, *tokens_file; /* --tokens, --tokens-file */
    sb_sequence *sequences;           /* (count) of these; sb_dumped_load */
    size_t count;
    const uint32_t **ids;
    size_t *id_count;
    sb_dump_options options; /* of all dumps that were opened */
} sb_dumped;

/* The rows --as and --map. */
#define SB_DUMPED_OPTS(dumped)                                                                     \
    {"as", 0, SB_OPT_STRING, &(dumped)->as, "KIND", "what a file of another program is"},          \
    {                                                                                              \
        "map", 0, SB_OPT_INPUT, &(dumped)->map, "F", "JSON: which of its arrays is which tap"      \
    }

/* Whether the path is read by sb_dumped_open: a reader was named, or it is no trace folder and one
 * knows it. */
int sb_dumped_is(const sb_dumped *dumped, const char *path);

/* config and folder: of the checkpoint, both NULL if none was given. Token ids are loaded when they
 * are first needed; sb_dumped_clear releases them, when all dumps are closed. */
sb_status sb_dumped_open(sb_dumped *dumped, const char *path, const sb_config *config,
                         const char *folder, sb_dump **out, sb_error *err);
void sb_dumped_clear(sb_dumped *dumped);

/* The readers, a line each, or as JSON. */
sb_status sb_dumped_kinds(int as_json, sb_error *err);

#endif
