/* head_faults.h - faults in the files of a BF16 MTP head, each of which a run of the head must
 * show. */
#ifndef SB_TESTS_CHECK_HEAD_FAULTS_H
#define SB_TESTS_CHECK_HEAD_FAULTS_H

#include "tests/lib/checkpoint.h"

/* What a fault must change. */
typedef enum head_effect {
    HEAD_NOTHING,
    HEAD_IDS, /* the drafts, while acceptance stays within the interval of the healthy head */
    HEAD_RATE /* acceptance, by more than chance explains */
} head_effect;

typedef enum head_kind {
    HEAD_ANY,
    HEAD_MOE, /* for a head with experts, stored fused */
    HEAD_DENSE
} head_kind;

typedef enum head_edit {
    HEAD_EDIT_none,
    HEAD_EDIT_times,  /* every value of a is multiplied by `by` */
    HEAD_EDIT_plus,   /* `by` is added to every value of a */
    HEAD_EDIT_swap,   /* a and b exchange their values */
    HEAD_EDIT_rotate, /* each expert of a and b becomes the next; by = 2: each half of one */
    HEAD_EDIT_norms,  /* `by` is added to every norm */
    HEAD_EDIT_fc,     /* mtp.fc gets the halves that a names for embedding and hidden */
    HEAD_EDIT_four,   /* fifteen levels per row, the coarsest rounding called four bits */
    HEAD_EDIT_drawn   /* initial values: matrices of N(0, 0.02), norms of 0 */
} head_edit;

/* Names of tensors lack "mtp." or "mtp.layers.0.". */
typedef struct head_fault {
    const char *name;
    head_edit edit;
    head_effect effect;
    head_kind kind;
    const char *a, *b;
    float by;
} head_fault;

extern const head_fault head_faults[];
extern const size_t head_fault_count;

/* True if the head in a folder has the parts that a fault damages. */
int head_fault_fits(const head_fault *fault, const test_folder *f);

void head_fault_plant(const head_fault *fault, const test_folder *f);

const head_fault *head_fault_of(const char *name); /* fails the test if there is none */

/* Every value x of the tensor becomes times x + plus. `name` is the whole name. */
void head_change(const test_folder *f, const char *name, float times, float plus);

/* Copies the head from another folder of the same shapes. */
void head_take(const test_folder *f, const test_folder *other);

#endif
