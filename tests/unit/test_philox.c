/* test_philox.c - Philox4x32-10 against the published known answers of Random123. */
#include "tests/lib/suite.h"

#include "ref/base/philox.h"

typedef struct known_answer {
    uint32_t counter[4], key[2], block[4];
} known_answer;

/* The lines "philox4x32 10" of kat_vectors. */
static const known_answer KNOWN[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}},
    {{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
     {0xffffffffu, 0xffffffffu},
     {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}},
    {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
     {0xa4093822u, 0x299f31d0u},
     {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}},
};

TEST(test_known_answers)
{
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
        sb_philox block = sb_philox4x32_10(KNOWN[i].counter, KNOWN[i].key);
        assert_memory_equal(block.word, KNOWN[i].block, sizeof block.word);
    }
}

/* Every bit of the counter and of the key changes about half of the bits of every word. */
TEST(test_every_bit_counts)
{
    for (int bit = 0; bit < 192; bit++) {
        uint32_t in[6] = {1, 2, 3, 4, 5, 6};
        sb_philox before = sb_philox4x32_10(in, in + 4);
        in[bit / 32] ^= 1u << (bit % 32);
        sb_philox after = sb_philox4x32_10(in, in + 4);
        for (int w = 0; w < 4; w++) {
            int changed = 0;
            for (uint32_t x = before.word[w] ^ after.word[w]; x; x &= x - 1)
                changed++;
            assert_in_range(changed, 3, 29);
        }
    }
}
