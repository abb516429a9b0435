/* head_faults.h - faults in the files of an MTP head of BF16, each of which a run of it must show.
 */
#ifndef SB_TESTS_CHECK_HEAD_FAULTS_H
#define SB_TESTS_CHECK_HEAD_FAULTS_H

#include "tests/lib/checkpoint.h"

/* What a fault must change. */
typedef enum head_effect {
    HEAD_NOTHING,
    HEAD_IDS, /* drafts, and acceptance stays within the interval of the healthy head */
    HEAD_RATE /* acceptance, by more than chance explains */
} head_effect;

typedef enum head_kind {
    HEAD_ANY,
    HEAD_MOE, /* of a head with experts, stored fused */
    HEAD_DENSE
} head_kind;

typedef enum head_edit {
    HEAD_EDIT_none,
    HEAD_EDIT_times,  /* every value of a becomes by times it */
    HEAD_EDIT_plus,   /* by is added to every value of a */
    HEAD_EDIT_swap,   /* the values of a and b */
    HEAD_EDIT_rotate, /* of the experts in a, and in b, cut into `by`, each is the next one */
    HEAD_EDIT_norms,  /* by is added to every norm */
    HEAD_EDIT_fc,     /* the halves of mtp.fc, embedding and hidden, become those that a names */
    HEAD_EDIT_four,   /* sixteen levels per row, the coarsest that anybody calls four bits */
    HEAD_EDIT_drawn   /* what an initialization leaves: matrices of 0.02, and norms of 0 */
} head_edit;

/* Names of tensors are without "mtp." or "mtp.layers.0.". */
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

/* Whether the head in a folder has what a fault damages. */
int head_fault_fits(const head_fault *fault, const test_folder *f);

void head_fault_plant(const head_fault *fault, const test_folder *f);

const head_fault *head_fault_of(const char *name); /* fails the test if there is none */

/* Every value x of a tensor, by its whole name, becomes times x + plus. */
void head_change(const test_folder *f, const char *name, float times, float plus);

/* The head of another folder of the same shapes. */
void head_take(const test_folder *f, const test_folder *other);

#endif
