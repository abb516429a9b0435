/* head_plants.h - common mistakes in implementations of the MTP head, planted into ours. */
#ifndef SB_TESTS_HF_HEAD_PLANTS_H
#define SB_TESTS_HF_HEAD_PLANTS_H

#include "ref/run/model.h"
#include "tests/hf/forced.h"

typedef struct head_plant {
    const char *name, *what;
    forced_op op;                    /* the comparison must fail in this op, and in no other */
    const char *tap;                 /* the first tap that fails */
    const char *knob;                /* the mistake as a knob setting, or NULL */
    void (*plant)(sb_op_table *ops); /* or as a wrong op at one place of the head, or NULL */
    int mixture;                     /* only for models with experts */
    int harmless;                    /* does not change the logits in exact arithmetic */
} head_plant;

size_t head_plant_count(void);
const head_plant *head_plant_at(size_t i);

/* The table and the knobs of a run with the mistake. The plants keep a reference to the model. */
sb_status head_plant_set(const head_plant *plant, const sb_model *model, sb_op_table *ops,
                         sb_knobs *knobs);

#endif
