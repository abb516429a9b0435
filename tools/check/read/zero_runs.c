#include "tools/check/read/zero_runs.h"

#include <string.h>

#include "ref/base/mem.h"

enum {
    STRAY = 8,  /* bytes next to a lost page that may be zero by chance */
    NARROW = 32 /* rows of up to this number of bytes end at pages too often to explain a run */
};

static uint64_t up(uint64_t x, uint64_t to)
{
    return (x + to - 1) / to * to;
}

void sb_zero_pages_of(const sb_zero_run *run, uint64_t offset, uint64_t *first, uint64_t *end)
{
    *first = run->first == offset ? offset : up(run->first, SB_PAGE);
    *end = run->end == offset + run->tensor->bytes ? run->end : run->end / SB_PAGE * SB_PAGE;
}

/* V-153: "begins and ends at pages of the file, or with its tensor" */
static int at_pages(const sb_zero_run *run, uint64_t offset)
{
    uint64_t first, end;
    sb_zero_pages_of(run, offset, &first, &end);
    return first <= run->first + STRAY && end + STRAY >= run->end && end >= first + SB_PAGE;
}

/* 1 if the begin and the end are at multiples of `row`, as offsets in the tensor, up to stray
 * zeros. */
static int at_multiples(uint64_t first, uint64_t end, uint64_t row)
{
    return row && up(first, row) <= first + STRAY && end / row * row + STRAY >= end;
}

/* V-153: "A tensor explains a run" with its rows, a vector with its parts. */
static int at_rows(const sb_zero_run *run, uint64_t offset)
{
    const sb_tensor *t = run->tensor;
    uint64_t first = run->first - offset, end = run->end - offset;
    if (t->rank <= 1) {
        for (unsigned parts = 2; parts <= 4; parts++)
            if (t->bytes % parts == 0 && at_multiples(first, end, t->bytes / parts))
                return 1;
        return t->dtype == SB_DTYPE_I32 || t->dtype == SB_DTYPE_I64; /* g_idx */
    }
    uint64_t row = t->shape[t->rank - 1] * sb_dtype_bits(t->dtype) / 8;
    return (row > NARROW || first == 0 || end == t->bytes) && at_multiples(first, end, row);
}

static void close_run(sb_zero_scan *s, uint64_t end)
{
    sb_zero_run run = {s->tensor, s->open, end};
    int whole = s->open == s->start && end == s->start + s->tensor->bytes;
    if (end - s->open < SB_PAGE || whole || !at_pages(&run, s->start) || at_rows(&run, s->start))
        return;
    if (!*s->list)
        *s->list = sb_alloc(1, sizeof **s->list);
    if (!*s->list) {
        s->lost = 1;
        return;
    }
    sb_zero_list *list = *s->list;
    if (list->count < SB_ZERO_RUNS)
        list->runs[list->count] = run;
    list->count++;
}

static int is_zero_word(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word == 0;
}

/* The number of zeros that begin here. */
static size_t zeros_from(const unsigned char *p, size_t count)
{
    size_t n = 0;
    while (n + 8 <= count && is_zero_word(p + n))
        n += 8;
    while (n < count && p[n] == 0)
        n++;
    return n;
}

/* The number of zeros directly before p + count. */
static size_t zeros_to(const unsigned char *p, size_t count)
{
    size_t n = 0;
    while (n + 8 <= count && is_zero_word(p + count - n - 8))
        n += 8;
    while (n < count && p[count - n - 1] == 0)
        n++;
    return n;
}

void sb_zero_begin(sb_zero_scan *s, sb_zero_list **list, const sb_tensor *tensor, uint64_t offset)
{
    *s = (sb_zero_scan){
        .list = list, .tensor = tensor, .start = offset, .at = offset, .open = offset};
}

/* A relevant run contains a whole page, so it is enough to look at one word per page. A run that
 * begins in bytes of an earlier call is open. */
void sb_zero_bytes(sb_zero_scan *s, const unsigned char *bytes, size_t count)
{
    size_t done = zeros_from(bytes, count);
    uint64_t base = s->at, last = s->start + s->tensor->bytes;
    if (done < count) {
        close_run(s, base + done);
        for (size_t page = (size_t)(up(base + done, SB_PAGE) - base); page + 8 <= count;
             page = (size_t)(up(base + done, SB_PAGE) - base)) {
            done = page + 1;
            if (!is_zero_word(bytes + page))
                continue;
            size_t end = page + zeros_from(bytes + page, count - page);
            done = end > page + 1 ? end : done;
            if (end == count)
                break;
            s->open = base + page - zeros_to(bytes, page);
            close_run(s, base + end);
        }
        s->open = base + count - zeros_to(bytes, count);
    }
    s->at = base + count;
    if (s->at == last)
        close_run(s, last);
}
