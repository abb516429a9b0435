#include "tools/check/read/code_runs.h"

#include <string.h>

void sb_code_begin(sb_code_scan *s, sb_code_runs *to, unsigned bits, uint64_t size)
{
    *s = (sb_code_scan){.to = bits ? to : NULL, .size = size};
    if (bits)
        to->bits = bits;
}

/* The number of codes in the outer half of their range: their two highest bits are equal. */
static uint32_t outer_of(uint64_t word, unsigned bits)
{
    uint64_t same = ~(word ^ word << 1);
    uint64_t ones =
        bits == 4 ? (same >> 3 & 0x1111111111111111u) : (same >> 7 & 0x0101010101010101u);
    ones = (ones & 0x0101010101010101u) + (ones >> 4 & 0x0101010101010101u);
    return (uint32_t)(ones * 0x0101010101010101u >> 56);
}

static void add_usual(sb_code_scan *s, uint32_t outer)
{
    s->to->codes += SB_CODE_WINDOW * 8 / s->to->bits;
    s->to->outer += outer;
}

static void close_run(sb_code_scan *s, uint64_t end)
{
    sb_code_runs *to = s->to;
    if (end - s->open == SB_CODE_WINDOW)
        add_usual(s, s->last_outer);
    if (end - s->open > SB_CODE_WINDOW) {
        if (to->count < SB_CODE_RUNS)
            to->runs[to->count] = (sb_code_run){s->open, end};
        to->count++;
    }
}

/* V-36: "at least 45 %" */
static void end_window(sb_code_scan *s)
{
    uint64_t first = s->at - SB_CODE_WINDOW, codes = SB_CODE_WINDOW * 8 / s->to->bits;
    if (100 * (uint64_t)s->outer < 45 * codes) {
        close_run(s, first);
        add_usual(s, s->outer);
        s->open = s->at;
    } else {
        s->last_outer = s->outer;
    }
    s->outer = 0;
}

void sb_code_bytes(sb_code_scan *s, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; s->to && i < count;) {
        uint64_t word = 0;
        size_t left = SB_CODE_WINDOW - s->at % SB_CODE_WINDOW, n = count - i < 8 ? count - i : 8;
        n = n < left ? n : left;
        memcpy(&word, bytes + i, n);
        s->outer += outer_of(word, s->to->bits);
        s->outer -= (uint32_t)(8 - n) * 8 / s->to->bits; /* zeros that pad the word */
        s->at += n;
        i += n;
        if (s->at % SB_CODE_WINDOW == 0)
            end_window(s);
    }
    if (s->to && s->at == s->size)
        close_run(s, s->at / SB_CODE_WINDOW * SB_CODE_WINDOW);
}
