/* take_names.c - names of modules, and of experts within them. */
#include <stdio.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/model/detect.h"
#include "ref/model/names.h"
#include "ref/model/take_parts.h"

/* --- names ------------------------------------------------------------------------------------ */

const char *sb_plain_name(const char *name)
{
    if (sb_starts(name, "model.visual."))
        return name + strlen("model.");
    for (size_t i = 0; i < SB_TEXT_PREFIXES; i++)
        if (sb_starts(name, sb_text_prefixes[i]))
            return name + strlen(sb_text_prefixes[i]);
    return name;
}

const char *sb_text_prefix(const sb_checkpoint *checkpoint)
{
    size_t seen[SB_TEXT_PREFIXES] = {0}, best = 0;
    for (size_t i = 0; i < sb_checkpoint_count(checkpoint); i++) {
        const char *name = sb_checkpoint_at(checkpoint, i)->name;
        size_t p = 0;
        while (p < SB_TEXT_PREFIXES && !sb_starts(name, sb_text_prefixes[p]))
            p++;
        if (p < SB_TEXT_PREFIXES && !sb_starts(name, "model.visual."))
            seen[p]++;
    }
    for (size_t p = 1; p < SB_TEXT_PREFIXES; p++)
        if (seen[p] > seen[best])
            best = p;
    return seen[best] ? sb_text_prefixes[best] : "";
}

/* W-2: "under the prefix that the names of the checkpoint have" - returns NULL if out of memory. */
char *sb_take_name(const char *name, const char *prefix, int vision_in_model)
{
    const char *plain = sb_plain_name(name);
    char text[SB_MAX_TENSOR_NAME + 32];
    if (sb_starts(plain, "visual."))
        prefix = vision_in_model ? "model." : "";
    else if (plain == name || !prefix[0])
        return sb_strdup(name);
    snprintf(text, sizeof text, "%s%s", prefix, plain);
    return sb_strdup(text);
}

/* --- the module of a tensor ------------------------------------------------------------------- */

/* The length of "....mlp.experts" in a plain name, or 0. Sets *style to SB_EXPERTS_STACKED or
 * SB_EXPERTS_SPLIT. */
size_t sb_take_experts(const char *plain, int *style)
{
    static const char mark[] = ".experts.";
    const char *at = strstr(plain, mark);
    if (!at || sb_starts(plain, "visual."))
        return 0;
    const char *next = at + sizeof mark - 1;
    *style = *next >= '0' && *next <= '9' ? SB_EXPERTS_SPLIT : SB_EXPERTS_STACKED;
    return (size_t)(next - 1 - plain);
}

/* The smallest module of a tensor. In a stack, each code tensor with its scales is a module. */
void sb_take_module(const char *plain, char *module, size_t size)
{
    int style = 0;
    size_t n = sb_take_experts(plain, &style);
    if (n > 0 && style == SB_EXPERTS_STACKED) {
        snprintf(module, size, "%s", plain);
        char *tail = strstr(module + n, "_proj");
        if (tail)
            tail[strlen("_proj")] = '\0';
    } else if (!sb_layer_of(plain, module, size)) {
        snprintf(module, size, "%s", plain);
        n = strlen(module);
        if (n > 5 && strcmp(module + n - 5, ".bias") == 0)
            module[n - 5] = '\0';
    }
}
