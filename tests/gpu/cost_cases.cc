#include "tests/gpu/cost_cases.h"

#include <stdio.h>

namespace
{

typedef unsigned long long number;

bool seen[SB_COST_KERNELS];

/* Whether two names, such as "(sb_tile_kernel<LAYER, ...>)" and "sb_tile_kernel<sb_w4a4, ...>",
 * mean the same kernel. */
bool is_of(const char *launched, const char *name)
{
    launched += *launched == '(';
    const size_t length = strcspn(launched, "<)");
    return length == strcspn(name, "<") && memcmp(name, launched, length) == 0;
}

} // namespace

void cost_counts::differs(const char *kernel, const char *what, uint64_t is, uint64_t should)
{
    if (is != should && !*text)
        snprintf(text, sizeof text, "%s, %s: %llu, not %llu", kernel, what, static_cast<number>(is),
                 static_cast<number>(should));
}

void cost_counts::differs(const char *kernel, const char *buffer, const char *what, uint64_t is,
                          uint64_t should)
{
    char both[80];
    snprintf(both, sizeof both, "bytes of %s %s", buffer, what);
    differs(kernel, both, is, should);
}

bool cost_counts::has(sb_cost_kernel kernel, const char *buffer) const
{
    for (const sb_cost_buffer &b : all)
        if (b.kernel == kernel && strcmp(b.name, buffer) == 0)
            return true;
    return false;
}

/* B-15: "a kernel touches no buffer that its list lacks"; and each buffer of the list is touched as
 * it should be. */
void cost_counts::compare(sb_cost_kernel kernel, const char *launched)
{
    seen[kernel] = true;
    for (const sb_cost_buffer &b : all) {
        if (b.kernel != kernel)
            continue;
        const sb_emu_tally t = sb_emu_counted(&counts, launched, b.name);
        differs(launched, b.name, "read", t.launch.read, b.read);
        differs(launched, b.name, "written", t.launch.written, b.written);
        if (b.by_blocks == SB_COST_AGAIN)
            continue;
        differs(launched, b.name, "written by blocks", t.block.written, b.written);
        differs(launched, b.name, "read by blocks", t.block.read, b.by_blocks);
    }
    for (const sb_emu_tally &t : counts.tally)
        if (t.kernel && t.what && strcmp(t.kernel, launched) == 0 && !has(kernel, t.what))
            differs(launched, t.what, "that cost.def lacks", t.read + t.written, 0);
}

const char *cost_counts::compared(const sb_cost_shape &shape,
                                  std::initializer_list<sb_cost_kernel> kernels)
{
    uint64_t expected = 0;
    *text = 0;
    sb_cost_of(&shape, all, macs);
    for (const sb_cost_kernel kernel : kernels) {
        const uint64_t should = sb_cost_launches(kernel);
        uint64_t launches = 0;
        for (const sb_emu_tally &t : counts.tally)
            if (t.kernel && !t.what && is_of(t.kernel, sb_cost_name(kernel))) {
                compare(kernel, t.kernel);
                launches += t.times;
            }
        differs(sb_cost_name(kernel), "launches", launches, should);
        expected += should;
    }
    differs("all kernels", "launches", sb_emu_counted(&counts, nullptr, nullptr).times, expected);
    return *text ? text : nullptr;
}

cost_gpu::cost_gpu()
{
    assert_int_equal(sb_gpu_open(&gpu, nullptr), SB_OK);
    sb_gpu_count(gpu, &counts);
}

cost_gpu::~cost_gpu()
{
    sb_gpu_close(gpu);
}

const char *cost_gpu::compared(const sb_cost_shape &shape, sb_status status,
                               std::initializer_list<sb_cost_kernel> kernels)
{
    if (status != SB_OK)
        fail_msg("%s", sb_gpu_said(gpu)->text);
    const char *wrong = cost_counts::compared(shape, kernels);
    counts = {};
    return wrong;
}

void cost_gpu::is(const sb_cost_shape &shape, sb_status status,
                  std::initializer_list<sb_cost_kernel> kernels)
{
    const char *wrong = compared(shape, status, kernels);
    if (wrong)
        fail_msg("%llu rows: %s", static_cast<number>(shape.rows), wrong);
}

void cost_all_seen(sb_cost_kernel first, sb_cost_kernel end)
{
    for (int k = first; k < end; k++)
        if (!seen[k])
            fail_msg("%s: nothing has started it", sb_cost_name(static_cast<sb_cost_kernel>(k)));
}

void cost_expect(const char *wrong, const char *why)
{
    if (!wrong || !strstr(wrong, why))
        fail_msg("%s, where this was expected: %s", wrong ? wrong : "nothing is wrong", why);
}

void cost_route(size_t rows, unsigned spread, uint32_t *ids, sb_cost_shape *shape)
{
    const size_t pairs = rows * COST_KEPT, most = sb_cost_set(pairs, COST_EXPERTS);
    size_t of[COST_EXPERTS] = {};
    for (uint32_t i = 0; i < pairs; i++) {
        ids[i] = i / COST_KEPT * 3 % spread + i % COST_KEPT * (COST_EXPERTS / 2);
        of[ids[i]]++;
    }
    shape->experts = COST_EXPERTS;
    shape->pairs = pairs;
    for (const size_t n : of) {
        shape->used += n != 0;
        shape->sets += sb_cost_up(n, most);
    }
}
