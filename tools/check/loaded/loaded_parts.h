/* loaded_parts.h - for loaded.c: which rows of which matrices a parameter consists of, and their
 * digest. */
#ifndef SB_CHECK_LOADED_PARTS_H
#define SB_CHECK_LOADED_PARTS_H

#include "ref/math/law.h"
#include "tools/check/loaded/loaded.h"

/* Some rows of one matrix of the files. */
typedef struct sb_segment {
    sb_matrix matrix;
    uint32_t first, rows;
    const sb_member *member; /* NULL: a tensor that belongs to no layer, or a part of a layer */
    const sb_tensor *tensor;
} sb_segment;

/* What the files have for a parameter: all segments, one below the other. */
typedef struct sb_held_values {
    sb_segment *segments;
    size_t count;
    uint64_t elements;
    /* the parameter holds the bytes of this tensor; there are no segments then */
    const sb_tensor *raw;
    const char *lacks; /* the first module of a fused parameter that no file has */
} sb_held_values;

/* Finds what the files have for a parameter. If they have nothing, count is 0 and raw NULL. Fails
 * when memory runs out. */
sb_status sb_loaded_find(const sb_check *check, const sb_loaded_param *param, sb_held_values *out,
                         sb_error *err);
void sb_held_values_free(sb_held_values *held);

/* A member as a segment. */
sb_segment sb_segment_of(const sb_member *member);
/* A tensor of floats as a segment; returns 0 for any other tensor. */
int sb_segment_of_tensor(const sb_tensor *tensor, sb_segment *out);

/* The first values of the segment's first row under law exact, at most SB_LOADED_FIRST. */
sb_status sb_segments_first(const sb_segment *segment, float *values, size_t *count, sb_error *err);

/* The conversions of the values on their way into the parameter. */
typedef struct sb_journey {
    sb_law law;
    sb_format via; /* rounded to this format first; f32: no rounding */
    sb_format to;  /* then rounded to the format of the parameter */
    float times, plus;
    int one_zero; /* -0 becomes +0, as in ModelOpt's own dequantization */
} sb_journey;

typedef struct sb_value_size {
    double sum2, largest;
    uint64_t count;
} sb_value_size;

/* The digest of count segments after these conversions. size may be NULL. */
sb_status sb_segments_digest(const sb_segment *segments, size_t count, const sb_journey *journey,
                             sb_digest *digest, sb_value_size *size, sb_error *err);

/* The laws of dequantization, which can give different weights for a layer. */
enum { SB_LOADED_LAWS = 5 };
extern const sb_law sb_loaded_laws[SB_LOADED_LAWS];

/* The conversions of a loader that only dequantizes. law: an index of sb_loaded_laws. */
sb_journey sb_journey_of(unsigned law, sb_format to);

/* A parameter of the list and what the files have for it. */
typedef struct sb_loaded_entry {
    const sb_loaded_param *param; /* NULL for a dropped module or tensor */
    const char *name;             /* name of the parameter, or of the dropped module or tensor */
    sb_held_values held;
    sb_digest digest[SB_LOADED_LAWS]; /* the expected digests, by law */
    unsigned digests;                 /* 1 where the laws cannot differ; 0: nothing to compare */
    unsigned law;                     /* index of the law that matches, or SB_LOADED_LAWS */
    int one_zero;                     /* it matches if signs of zeros are ignored */
    sb_value_size size;
} sb_loaded_entry;

/* Computes the expected digests, one per law, and finds the law that matches. */
sb_status sb_loaded_expect(sb_loaded_entry *entry, sb_error *err);

/* What the parameter holds instead, in one line of text. twin: the module that has these values, or
 * NULL. *status is set on failure. */
sb_loaded_verdict sb_loaded_judge(const char *twin, const sb_loaded_entry *entry, char *text,
                                  size_t size, sb_status *status, sb_error *err);

/* 1, and the reason, if the values are right except for bits that a narrower type cannot hold. Only
 * for plain tensors: a quantized layer has no type of its own. */
int sb_loaded_lost_bits(const sb_loaded_entry *entry, char *text, size_t size, sb_status *status,
                        sb_error *err);

/* "64 x 32, BF16": what the files have. Returns text. */
const char *sb_held_text(const sb_held_values *held, char *text, size_t size);

/* 1 if a segment is of a layer whose own dequantization gives zeros without a sign. */
int sb_segments_have_one_zero(const sb_segment *segments, size_t count);

/* 1 if the laws can give different values for these segments. */
int sb_segments_have_laws(const sb_segment *segments, size_t count);

#endif
