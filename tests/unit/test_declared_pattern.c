/* test_declared_pattern.c - patterns of module names: the search for a part that must be in the
 * name comes first, and never changes the result. */
#include "tests/lib/suite.h"

#include <stdio.h>

#include "ref/model/declared_pattern.h"

static const struct {
    const char *pattern;
    int anchored;
    const char *name;
    int matches;
} rows[] = {
    {".*model\\.layers\\.1\\.mlp\\.gate.*", 1, "model.layers.1.mlp.gate", 1},
    {".*model\\.layers\\.1\\.mlp\\.gate.*", 1, "model.layers.11.mlp.gate", 0},
    {"^mtp.*", 1, "mtp.fc", 1},
    {"^mtp.*", 1, "model.mtp.fc", 0},
    {"mtp", 0, "model.mtp.fc", 1},
    {"gates?$", 0, "mlp.gate", 1}, /* the s is optional, the text before it is not */
    {"gates?$", 0, "mlp.gates", 1},
    {"gat*e", 0, "mlp.gae", 1},
    {"gat+e", 0, "mlp.gattte", 1},
    {"gat+?e", 0, "mlp.gae", 0},
    {"a.c", 0, "model.abc", 1}, /* a dot matches any character */
    {"a.c", 0, "model.ac", 0},
    {"a\\.c", 0, "model.abc", 0},
    {"lm_head|mtp", 0, "mtp.fc", 1},
    {"(lm_head)?x", 0, "x", 1},
    {"layers\\.\\d+\\.mlp", 0, "layers.12.mlp", 1},
    {"layers.[0-3].mlp", 0, "layers.2.mlp", 1},
    {"layers.1{2}", 0, "layers.11", 1},
    {"\\bmlp\\b", 0, "layers.1.mlp.gate", 1},
    {"\\Qa*b\\E", 0, "a*b", 1},
    {"\\x6dlp", 0, "mlp", 1},
    {"(?i)MLP", 0, "mlp", 1},
    {"", 0, "anything", 1},
    {".*", 1, "", 1},
};

TEST(test_patterns)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_regex *regex = NULL;
        sb_error err;
        int yes = -1;
        if (sb_regex_compile(rows[i].pattern, rows[i].anchored, "rule", &regex, &err) ||
            sb_regex_matches(regex, rows[i].name, "rule", &yes, &err))
            fail_msg("%s: %s", rows[i].pattern, err.text);
        if (yes != rows[i].matches)
            fail_msg("%s on %s: %d", rows[i].pattern, rows[i].name, yes);
        sb_regex_free(regex);
    }
}

/* Patterns longer than the part that is kept for the search. */
TEST(test_long_patterns)
{
    char pattern[400], name[500];
    for (size_t n = 1; n < sizeof pattern; n++) {
        sb_regex *regex = NULL;
        sb_error err;
        int yes = 0;
        for (size_t i = 0; i < n; i++)
            pattern[i] = (char)('a' + i % 23);
        pattern[n] = '\0';
        snprintf(name, sizeof name, "0.%s.0", pattern);
        assert_int_equal(sb_regex_compile(pattern, 0, "rule", &regex, &err), SB_OK);
        assert_int_equal(sb_regex_matches(regex, name, "rule", &yes, &err), SB_OK);
        assert_int_equal(yes, 1);
        name[2 + n - 1] = '!';
        assert_int_equal(sb_regex_matches(regex, name, "rule", &yes, &err), SB_OK);
        assert_int_equal(yes, 0);
        sb_regex_free(regex);
    }
}
