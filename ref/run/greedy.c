#include "ref/run/session.h"

/* "the one with the largest logit, the lowest id among equals" */
uint32_t sb_greedy(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (uint32_t)best;
}
