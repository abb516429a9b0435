/* audit_digests.c - checks the digests of a whole state against the arrays recorded beside them. */
#include <string.h>

#include "ref/state/piece.h"
#include "tools/judge/trace/audit_inside.h"

/* Adds the pieces of the head, or of all other layers, to the hash. 0 if a piece is missing or has
 * another size. */
static int add_pieces(sb_hash *hash, const sb_step_state *s, const sb_state *sizes, int of_head)
{
    for (size_t i = 0; i < sb_state_pieces(sizes); i++) {
        sb_piece p = sb_state_piece(sizes, i);
        size_t n = (size_t)sb_piece_elements(&p);
        if ((p.layer >= sizes->config->layers) != of_head || n == 0)
            continue;
        const sb_step_value *v = sb_step_find(&s->pieces, p.name);
        if (!v || !v->data || v->rows * v->cols != n)
            return 0;
        sb_hash_f32(hash, v->data, n);
    }
    return 1;
}

/* The number of the head's entries, by the size of its keys: as many as tokens, or one fewer
 * (K-27). */
static uint64_t entries_of(const sb_step_state *s, const sb_config *config)
{
    const sb_step_value *keys = sb_step_find(&s->pieces, "mtp.layers.0.self_attn.keys");
    return keys && keys->data ? keys->rows * keys->cols / sb_state_kv_row(config) : 0;
}

/* D-3 or D-9. 0 if not all of its arrays are recorded. */
static int digest_of(const sb_step_state *s, const sb_config *config, int of_head, sb_digest *out)
{
    const sb_state sizes = {.config = config,
                            .position = s->position,
                            .has_mtp = of_head,
                            .mtp_entries = of_head ? entries_of(s, config) : 0};
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return 0;
    sb_hash_u64(hash, of_head ? sizes.mtp_entries : sizes.position);
    int whole = add_pieces(hash, s, &sizes, of_head);
    *out = sb_hash_end(hash);
    sb_hash_free(hash);
    return whole;
}

void sb_audit_digests(sb_audit *a, const sb_step *step, const sb_step_state *s)
{
    const struct {
        int has, of_head;
        const char *name;
        const sb_digest *digest;
    } said[2] = {{s->has_target, 0, "target", &s->target}, {s->has_mtp, 1, "mtp", &s->mtp}};
    for (size_t i = 0; i < 2 && a->config; i++) {
        sb_digest found;
        if (!said[i].has || (said[i].of_head && !a->config->mtp_layers) ||
            !digest_of(s, a->config, said[i].of_head, &found) ||
            strcmp(found.hex, said[i].digest->hex) == 0)
            continue;
        sb_audit_add(a, "state", step->number, s->sequence, -1,
                     "the digest %s is %s, but the recorded arrays give %s", said[i].name,
                     said[i].digest->hex, found.hex);
    }
}
