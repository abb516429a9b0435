/* sample_plain.h - a second, plain implementation of section P of the specification, for tests.
 * Each common mistake of samplers can be switched on where implementers make it. */
#ifndef SB_TESTS_UNIT_SAMPLE_PLAIN_H
#define SB_TESTS_UNIT_SAMPLE_PLAIN_H

#include "ref/run/sample.h"

/* Mistakes that the vectors of golden/sampler must distinguish from the specification. */
#define PLAIN_MISTAKES(X)                                                                          \
    X(temperature_last, "what is kept is decided without temperature, which comes at the end")     \
    X(top_p_untempered, "top_p sums probabilities without temperature")                            \
    X(divided_first, "logits are divided by temperature before the largest is subtracted")         \
    X(highest_first, "the highest id first among equal logits")                                    \
    X(zeros_apart, "-0 is below +0")                                                               \
    X(ties_kept, "top_k keeps every logit that equals the last one")                               \
    X(top_p_strict, "the sum must be above top_p")                                                 \
    X(top_p_below, "the token that reaches top_p is cut")                                          \
    X(top_p_of_all, "top_p is a share of everything, also of what top_k cut")                      \
    X(sum_binary32, "prefix sums are added up in binary32")                                        \
    X(sum_unrounded, "prefix sums are compared before they are rounded")                           \
    X(min_p_first, "min_p comes before top_p")                                                     \
    X(min_p_absolute, "min_p is compared with the probability itself")                             \
    X(min_p_strict, "what equals min_p is cut")                                                    \
    X(normalised_twice, "probabilities are normalised before and after cutting")                   \
    X(u_without_half, "u = w 2^-32, which can be 0")                                               \
    X(u_to_one, "u is rounded to 1 where w is large")                                              \
    X(u_short, "u has the upper 24 bits of w only")                                                \
    X(log_of_u, "g = -log( -log(u) ), coarse where it matters")                                    \
    X(seed_low, "the upper half of the seed is not used")                                          \
    X(sequence_unused, "every sequence draws alike")                                               \
    X(sequence_low, "the upper half of the sequence is not used")                                  \
    X(position_unused, "every position draws alike")                                               \
    X(token_unused, "one u for all tokens")                                                        \
    X(one_word, "all purposes share a word")                                                       \
    X(next_word, "purposes count from word 1")                                                     \
    X(last_of_equals, "the highest id among equal scores")                                         \
    X(product_rounded, "u q is rounded before it is compared with p")                              \
    X(accept_equal, "u q = p accepts")                                                             \
    X(accept_impossible, "a draft with q = 0 is accepted where p is above 0")                      \
    X(accept_token_0, "u of token 0 decides for every draft")                                      \
    X(residual_of_p, "the token in the place of a draft is drawn from p")                          \
    X(residual_absolute, "weights are |p - q|")                                                    \
    X(residual_of_nothing, "token 0 where rounding leaves no weight")                              \
    X(residual_word, "the token in the place of a draft is drawn with word 0")

typedef enum plain_mistake {
    PLAIN_none,
#define PLAIN_ENUM(name, what) PLAIN_##name,
    PLAIN_MISTAKES(PLAIN_ENUM)
#undef PLAIN_ENUM
        PLAIN_COUNT
} plain_mistake;

void plain_probabilities(plain_mistake mistake, const sb_sampling *s, const float *logits,
                         uint32_t n, float *p);
float plain_uniform(plain_mistake mistake, const sb_sampling *s, uint32_t token, uint64_t position,
                    sb_purpose purpose);
float plain_gumbel(plain_mistake mistake, const sb_sampling *s, uint32_t token, uint64_t position,
                   sb_purpose purpose);
uint32_t plain_pick(plain_mistake mistake, const sb_sampling *s, const float *weights, uint32_t n,
                    uint64_t position, sb_purpose purpose);
int plain_accepts(plain_mistake mistake, const sb_sampling *s, const float *p, const float *q,
                  uint32_t draft, uint64_t position);
uint32_t plain_residual(plain_mistake mistake, const sb_sampling *s, const float *p, const float *q,
                        uint32_t n, uint64_t position);

#endif
