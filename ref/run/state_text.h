/* state_text.h - the metadata texts of a state file. Used by state_file.c and state_read.c. */
#ifndef SB_RUN_STATE_TEXT_H
#define SB_RUN_STATE_TEXT_H

#include "ref/base/hash.h"
#include "ref/container/metadata.h"
#include "ref/model/config.h"
#include "ref/ops/knobs.h"
#include "ref/run/eagle3.h"

typedef enum sb_state_key {
#define SB_STATE_KEY(name) SB_STATE_KEY_##name,
#include "ref/run/state_keys.def"
#undef SB_STATE_KEY
    SB_STATE_KEY_COUNT
} sb_state_key;

const char *sb_state_key_name(sb_state_key key); /* "samebit.state.config" */

/* The value of the key `engine`. */
extern const char sb_state_kernels[];

enum { SB_STATE_CONFIG_SIZE = 1024, SB_STATE_KNOBS_SIZE = 4096 };

/* "hidden_size=128 ...": the widths, and the other fields of config.json that decide bits. */
void sb_state_config_text(const sb_config *config, char text[SB_STATE_CONFIG_SIZE]);

/* "lllf": one letter for each layer, l linear and f full attention. */
void sb_state_layers_text(const sb_config *config, char text[SB_MAX_LAYERS + 1]);

/* Parses both texts. The message of SB_ERR_INPUT does not name the file. */
sb_status sb_state_config_parse(const char *text, const char *layers, sb_config *out,
                                sb_error *err);

/* The text of a drafter (D-11), and what it says about the shape of entries. */
void sb_state_drafter_text(const sb_eagle3_config *config, const uint32_t *after,
                           char text[SB_EAGLE3_TEXT]);
sb_status sb_state_drafter_parse(const char *text, sb_drafter_state *out, sb_error *err);

/* "act=bf16 scores=act": the knobs whose value is not their first value. sb_state_knobs_parse reads
 * this text. */
void sb_state_knobs_text(const sb_knobs *knobs, char text[SB_STATE_KNOBS_SIZE]);
sb_status sb_state_knobs_parse(const char *text, sb_knobs *out, sb_error *err);

/* D-12. values[key] NULL: the key is absent. The value of the seal itself is ignored. */
sb_status sb_state_seal(const char *const values[SB_STATE_KEY_COUNT], sb_digest *out,
                        sb_error *err);

#endif
