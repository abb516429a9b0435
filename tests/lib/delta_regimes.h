/* delta_regimes.h - decay, beta and keys for the tests of the bounds of the delta rule. */
#ifndef SB_TESTS_DELTA_REGIMES_H
#define SB_TESTS_DELTA_REGIMES_H

static const struct regime {
    const char *name;
    float decay, decay_spread, beta, common; /* common: the part that all keys share */
} regimes[] = {
    {"slow decay", -1e-4f, 5e-5f, 0.9f, 0.0f},
    {"alike keys", -1e-3f, 5e-4f, 0.99f, 3.0f},
    {"fast decay", -3.0f, 1.0f, 0.5f, 0.0f},
    {"mixed decay", -0.5f, 0.5f, 1.0f, 1.0f},
};

#endif
