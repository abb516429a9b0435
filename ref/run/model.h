/* model.h - a checkpoint folder, ready for computing. Immutable, and shared by all its sessions. */
#ifndef SB_RUN_MODEL_H
#define SB_RUN_MODEL_H

#include "ref/container/digest.h"
#include "ref/model/weights.h"
#include "ref/run/pager.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_model {
    sb_config config;
    sb_checkpoint *checkpoint;
    sb_declared *declared; /* NULL: no file declares a quantization */
    sb_weights *weights;
    sb_pager *pager; /* the only member that changes */
} sb_model;

/* If the weights take more than this share of the machine's memory, the pager gets a limit
 * (pager.h). */
enum { SB_RESIDENT_PERCENT = 75 };

/* Opens a folder: reads config.json, the declared quantization and the tensors, and binds each
 * tensor to its role. */
sb_status sb_model_open(const char *folder, sb_model **out, sb_error *err);

/* Opens a folder and overlays modules of other folders, each "PATTERN=FOLDER" (take.h), in the
 * order of the list. */
sb_status sb_model_open_overlaid(const char *folder, const char *const *overlays, size_t count,
                                 sb_model **out, sb_error *err);
void sb_model_close(sb_model *model);

/* True if there is an MTP head to run: its tensors exist, and the configuration declares its
 * layer. */
int sb_model_has_mtp(const sb_model *model);

#ifdef __cplusplus
}
#endif

#endif
