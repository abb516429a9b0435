/* test_gpu_w8a8.cc - linear layers of E4M3 weights with E4M3 inputs, in the emulator. */
#include "tests/gpu/lowbit_checks.h"
#include "tests/lib/suite.h"

namespace
{

const sb_factor none = {SB_NO_FACTOR, 0.0f};
const lowbit_kind kinds[] = {
    {"blocks of 128", SB_CONTAINER_fp8_block, 40, 320, 128, 128, none, none},
    {"blocks of 16 by 96", SB_CONTAINER_fp8_block_ct, 33, 320, 16, 96, none, none},
    {"blocks of 100", SB_CONTAINER_fp8_block, 16, 130, 16, 100, none, none},
    {"ten blocks", SB_CONTAINER_fp8_block, 16, 1280, 128, 128, none, none},
    {"a scale for each row", SB_CONTAINER_fp8_channel, 24, 320, 1, 0, none, none},
    {"a row scale, K 96", SB_CONTAINER_fp8_channel, 17, 96, 1, 0, none, none},
    {"one scale", SB_CONTAINER_fp8_tensor, 16, 1040, 0, 0, none, none},
    {"one scale, an input scale",
     SB_CONTAINER_fp8_tensor,
     24,
     320,
     0,
     0,
     none,
     {SB_MULTIPLIER, 0.043f}},
    {"row and input scales", SB_CONTAINER_fp8_channel, 9, 200, 1, 0, none, {SB_MULTIPLIER, 0.03f}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

TEST(test_chain)
{
    check_chain(kinds, KINDS);
}

TEST(test_bound)
{
    check_bound(kinds, KINDS);
}

TEST(test_single)
{
    check_single(&kinds[5]);
}

TEST(test_places)
{
    check_places(&kinds[0]);
    check_places(&kinds[4]);
}

TEST(test_faults)
{
    for (const char *fault : {"tile_tail", "lowbit_lanes", "tile_barrier"}) {
        check_fault(&kinds[0], fault);
        check_fault(&kinds[4], fault);
    }
    check_fault(&kinds[3], "tile_ring");
    check_fault(&kinds[6], "tile_ring");
}

TEST(test_poison)
{
    for (const lowbit_kind &kind : kinds)
        check_poison(&kind);
}

} // namespace
