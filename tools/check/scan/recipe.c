#include "tools/check/scan/recipe.h"

#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"

enum { LIMIT = 1 << 20 };

/* 1 if the text has the modifier as a key: a line that begins with the modifier and ':', after
 * blanks and hyphens only. */
static int names(const char *text, const char *modifier)
{
    size_t n = strlen(modifier);
    for (const char *at = strstr(text, modifier); at; at = strstr(at + n, modifier)) {
        const char *before = at;
        while (before > text && (before[-1] == ' ' || before[-1] == '-'))
            before--;
        if (at[n] == ':' && (before == text || before[-1] == '\n'))
            return 1;
    }
    return 0;
}

unsigned sb_recipe_of(const sb_check *check)
{
    static const struct {
        const char *modifier;
        unsigned is;
    } known[] = {
        {"GPTQModifier", SB_RECIPE_tuned},
        {"AutoRoundModifier", SB_RECIPE_tuned},
        {"SparseGPTModifier", SB_RECIPE_tuned},
        {"AWQModifier", SB_RECIPE_smoothed},
        {"SmoothQuantModifier", SB_RECIPE_smoothed},
        {"LogarithmicEqualizationModifier", SB_RECIPE_smoothed},
        {"SpinQuantModifier", SB_RECIPE_rotated},
        {"QuIPModifier", SB_RECIPE_rotated},
    };
    if (!check->self.checkpoint)
        return 0;
    char *path = sb_path_join(sb_checkpoint_folder(check->self.checkpoint), "recipe.yaml");
    unsigned char *bytes = NULL;
    size_t count = 0;
    sb_error err;
    unsigned is = 0;
    if (path && sb_read_file(path, LIMIT, &bytes, &count, &err) == SB_OK) {
        is = SB_RECIPE_there; /* sb_read_file appends a NUL to the text */
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is |= names((const char *)bytes, known[i].modifier) ? known[i].is : 0;
        free(bytes);
    }
    free(path);
    return is;
}
