/* states.h - helpers for tests of states. */
#ifndef SB_TESTS_LIB_STATES_H
#define SB_TESTS_LIB_STATES_H

#include "ref/run/session.h"
#include "ref/run/state_file.h"
#include "ref/state/compare.h"

/* A session with or without the MTP head; asserts success. knobs may be NULL. */
sb_session *test_session_mtp(const sb_model *model, const sb_knobs *knobs, int mtp);

/* Fails and names the first difference, unless both states are equal to the bit. */
void test_same_state(const char *what, const sb_state *got, const sb_state *want);

/* Fails unless the states differ. */
void test_other_state(const char *what, const sb_state *got, const sb_state *want);

/* A copy; asserts success. */
sb_state *test_state_copy(const sb_state *state);

/* The state after feeding ids one by one into a new session; asserts success. */
sb_state *test_state_of(const sb_model *model, const sb_knobs *knobs, int mtp, const uint32_t *ids,
                        size_t n);

/* Writes NaN into every cell of keys and values that belongs to no row. */
void test_poison_state(const sb_state *state);

/* A state of a model that need not exist, small enough for a fuzz seed: one layer of each kind,
 * `tokens` positions, elements k/8. The configuration stays valid until the program ends. */
sb_state *test_tiny_state(uint64_t tokens, int mtp);

#endif
