/* contradictions.c - check 9: files that declare the quantization twice and differently. */
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/judge/config_trees.h"
#include "tools/check/judge/contradictions.h"

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The first layer for which quantization_config.json declares something else; NULL: none. */
static const sb_unit *first_other(sb_check *check)
{
    const sb_units *u = &check->self.units;
    const char *folder = sb_checkpoint_folder(check->self.checkpoint);
    const sb_unit *other = NULL;
    sb_declared *copy = NULL;
    sb_error ignored;
    sb_status status = sb_declared_load_copy(folder, &copy, &ignored);
    check->findings.lost |= status == SB_ERR_MEMORY;
    if (status)
        return NULL;
    for (size_t i = 0; i < u->count && copy && !other; i++) {
        sb_declaration ours = {0}, theirs = {0};
        const char *name = u->rows[i].name;
        if (!u->rows[i].tensor && !sb_declared_for(check->self.declared, name, &ours, &ignored) &&
            !sb_declared_for(copy, name, &theirs, &ignored) && !sb_declaration_same(&ours, &theirs))
            other = &u->rows[i];
    }
    check->findings.lost |= sb_declared_lost(copy);
    sb_declared_free(copy);
    return other;
}

/* V-9: 1 if check 9 has a finding about a layer: then config.json may be the wrong file. */
static int config_is_wrong(const sb_check *check)
{
    const sb_findings *f = &check->findings;
    for (size_t i = 0; i < f->count; i++)
        if (f->rows[i].check == 9 && f->rows[i].level >= SB_LEVEL_warn)
            return 1;
    return 0;
}

/* V-9: "only quantization_config.json declares": engines read config.json alone. */
static void tell_undeclared(sb_check *check)
{
    const sb_units *u = &check->self.units;
    sb_config_trees trees;
    sb_declared *copy = NULL;
    sb_error ignored;
    size_t quantized = 0;
    for (size_t i = 0; i < u->count; i++)
        quantized += sb_unit_quantized(&u->rows[i]) != 0;
    if (quantized && sb_config_trees_load(check->self.checkpoint, &trees)) {
        if (!sb_tree_find(&trees, SB_PLACE_either, "quantization_config") &&
            !sb_tree_find(&trees, SB_PLACE_either, "compression_config") &&
            sb_declared_load_copy(sb_checkpoint_folder(check->self.checkpoint), &copy, &ignored) ==
                SB_OK &&
            copy)
            sb_check_find(
                check, 9, SB_LEVEL_error, "",
                "only quantization_config.json declares the quantization, config.json does not. No "
                "engine looks for that file: engines do not read the codes of %zu layers",
                quantized);
        sb_declared_free(copy);
        sb_config_trees_free(&trees);
    }
}

void sb_tell_contradictions(sb_check *check)
{
    tell_undeclared(check);
    const sb_declared *declared = check->self.declared;
    size_t count = declared ? sb_declared_notes(declared) : 0;
    int wrong = config_is_wrong(check);
    const sb_unit *other = count ? first_other(check) : NULL;
    for (size_t i = 0; i < count; i++) {
        const char *note = sb_declared_note(declared, i);
        int copy = begins(note, "quantization_config.json ");
        /* engines read no version, and NVIDIA declares the cache in only one of its two files */
        int harmless = strstr(note, " producer.version ") ||
                       (strstr(note, " kv_cache_quant_algo ") && strstr(note, " config.json none"));
        sb_level level = harmless || (copy && !wrong) ? SB_LEVEL_info : SB_LEVEL_warn;
        if (copy && other)
            sb_check_find(check, 9, level, "", "%s: the two files differ about %s%s", note,
                          SB_SHOW(other->name),
                          wrong ? "" : "; config.json decides, and it is right about every layer");
        else
            sb_check_find(check, 9, level, "", "%s%s", note,
                          copy ? ": both files declare the same for every layer" : "");
    }
}
