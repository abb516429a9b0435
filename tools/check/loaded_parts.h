/* loaded_parts.h - for loaded.c: which rows of which matrices a parameter is made of, and the
 * digest of them. */
#ifndef SB_CHECK_LOADED_PARTS_H
#define SB_CHECK_LOADED_PARTS_H

#include "ref/math/law.h"
#include "tools/check/loaded.h"

/* Some rows of one matrix of the files. */
typedef struct sb_segment {
    sb_matrix matrix;
    uint32_t first, rows;
    const sb_member *member; /* NULL: a tensor that belongs to no layer, or a part of one */
    const sb_tensor *tensor;
} sb_segment;

/* What the files have for a parameter: all segments one below the other. */
typedef struct sb_held_values {
    sb_segment *segments;
    size_t count;
    uint64_t elements;
    const sb_tensor *raw; /* the parameter holds the bytes of this tensor; then no segments */
    const char *lacks;    /* the first module of a fused parameter that no file has */
} sb_held_values;

/* Nothing in the files: count is 0 and raw NULL. Fails when memory is out. */
sb_status sb_loaded_find(const sb_check *check, const sb_loaded_param *param, sb_held_values *out,
                         sb_error *err);
void sb_held_values_free(sb_held_values *held);

/* A member as the one segment of something. */
sb_segment sb_segment_of(const sb_member *member);
/* A tensor of floats as one; 0: it is none. */
int sb_segment_of_tensor(const sb_tensor *tensor, sb_segment *out);

/* The first values of a segment under law exact, at most SB_LOADED_FIRST of its first row. */
sb_status sb_segments_first(const sb_segment *segment, float *values, size_t *count, sb_error *err);

/* What happens to the values on their way into the parameter. */
typedef struct sb_journey {
    sb_law law;
    sb_format via; /* rounded to this format; f32: not at all */
    sb_format to;  /* and then to that of the parameter */
    float times, plus;
    int one_zero; /* -0 becomes +0, as in ModelOpt's own dequantization */
} sb_journey;

typedef struct sb_value_size {
    double sum2, largest;
    uint64_t count;
} sb_value_size;

/* The digest of count segments under a journey. size may be NULL. */
sb_status sb_segments_digest(const sb_segment *segments, size_t count, const sb_journey *journey,
                             sb_digest *digest, sb_value_size *size, sb_error *err);

/* The laws that give a layer weights of its own. */
enum { SB_LOADED_LAWS = 5 };
extern const sb_law sb_loaded_laws[SB_LOADED_LAWS];

/* What a loader that does nothing but to dequantize does. law: a position in sb_loaded_laws. */
sb_journey sb_journey_of(unsigned law, sb_format to);

/* A parameter of the list and what the files have for it. */
typedef struct sb_loaded_entry {
    const sb_loaded_param *param; /* NULL of what was dropped */
    const char *name;             /* of it, or of what was dropped */
    sb_held_values held;
    sb_digest digest[SB_LOADED_LAWS]; /* as it should be, by law */
    unsigned digests;                 /* 1 where laws cannot differ; 0: nothing to compare */
    unsigned law;                     /* the position of the one that matches, or SB_LOADED_LAWS */
    int one_zero;                     /* it matches where zeros have no sign */
    sb_value_size size;
} sb_loaded_entry;

/* The digests that it should have, one per law, and the law that it follows. */
sb_status sb_loaded_expect(sb_loaded_entry *entry, sb_error *err);

/* What the parameter holds instead, in one line of text. twin: whose values these are, or NULL.
 * *status is set on failure. */
sb_loaded_verdict sb_loaded_judge(const char *twin, const sb_loaded_entry *entry, char *text,
                                  size_t size, sb_status *status, sb_error *err);

/* 1 and why, if the values are right but for bits that a narrower type cannot hold. Of plain
 * tensors only: a quantized layer has no type of its own. */
int sb_loaded_lost_bits(const sb_loaded_entry *entry, char *text, size_t size, sb_status *status,
                        sb_error *err);

/* "64 x 32, BF16": what the files have. Returns text. */
const char *sb_held_text(const sb_held_values *held, char *text, size_t size);

/* Whether a segment is a layer whose own dequantization has zeros without a sign. */
int sb_segments_have_one_zero(const sb_segment *segments, size_t count);

/* Whether laws can give different values for it. */
int sb_segments_have_laws(const sb_segment *segments, size_t count);

#endif
