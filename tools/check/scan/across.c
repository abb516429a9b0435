#include "tools/check/scan/across.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/math/fn.h"
#include "ref/model/probe.h"

int sb_unit_is_plain(const sb_unit *unit)
{
    return unit->tensor || (!unit->status && unit->found.container == SB_CONTAINER_plain);
}

/* Names a piece of a unit. sb_each_piece visits the experts in order, gate before up. */
static void piece_text(const sb_unit *unit, size_t piece, char *text, size_t size)
{
    const char *last = strrchr(unit->name, '.');
    int both = last && strcmp(last, ".gate_up_proj") == 0;
    text[0] = '\0';
    if (!unit->found.experts)
        return;
    if (both)
        snprintf(text, size, "expert %zu %s, ", piece / 2, piece % 2 ? "up_proj" : "gate_proj");
    else
        snprintf(text, size, "expert %zu, ", piece);
}

const char *sb_spot_text(const sb_check *check, const sb_unit *unit, size_t piece, sb_spot spot,
                         sb_spot_buffer *room)
{
    const sb_tensor *t = unit->tensor ? unit->tensor : unit->found.part[SB_PART_weight];
    const sb_seen *seen = &unit->seen[piece];
    char which[48];
    sb_format format;
    piece_text(unit, piece, which, sizeof which);
    if (!t || !sb_plain_format(t->dtype, &format)) {
        snprintf(room->text, sizeof room->text, "%srow %" PRIu32 ", column %" PRIu32, which,
                 spot.row, spot.col);
        return room->text;
    }
    uint64_t row = (uint64_t)piece * seen->rows + spot.row;
    uint64_t byte = (row * seen->cols + spot.col) * sb_format_bytes(format);
    snprintf(room->text, sizeof room->text,
             "%srow %" PRIu32 ", column %" PRIu32 " (byte %" PRIu64 " of %s)", which, spot.row,
             spot.col, sb_checkpoint_offset(check->self.checkpoint, t) + byte,
             SB_SHOW(sb_checkpoint_shard_name(check->self.checkpoint, t->shard)));
    return room->text;
}

static int kin_order(const void *a, const void *b)
{
    const sb_kin *x = a, *y = b;
    int order = strcmp(x->kind, y->kind);
    return order ? order : strcmp(x->member->plain, y->member->plain);
}

sb_kin *sb_kin_make(sb_check *check, int head_apart, size_t *count)
{
    const sb_units *u = &check->self.units;
    sb_kin *kin = u->member_count ? sb_alloc(u->member_count, sizeof *kin) : NULL;
    *count = 0;
    if (!kin) {
        check->findings.lost |= u->member_count > 0;
        return NULL;
    }
    for (size_t i = 0; i < u->member_count; i++) {
        const sb_member *m = &u->members[i];
        int head = strncmp(m->plain, "mtp.", 4) == 0 && !head_apart;
        if (!m->seen->done)
            continue;
        kin[*count].member = m;
        sb_layer_kind(m->plain + (head ? 4 : 0), kin[*count].kind, sizeof kin[*count].kind);
        ++*count;
    }
    qsort(kin, *count, sizeof *kin, kin_order);
    return kin;
}

size_t sb_kin_end(const sb_kin *kin, size_t count, size_t first)
{
    size_t end = first;
    while (end < count && strcmp(kin[end].kind, kin[first].kind) == 0)
        end++;
    return end;
}

static int double_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sb_median(double *values, size_t count)
{
    if (!count)
        return 0;
    qsort(values, count, sizeof *values, double_order);
    return values[count / 2];
}

/* The seed is scaled into the range of binary32 by powers of 4. */
double sb_root(double x)
{
    double scale = 1;
    if (!(x > 0) || x > 1e300)
        return x > 0 ? 1e150 : 0;
    for (; x > 1e30; scale *= 1e6)
        x /= 1e12;
    for (; x < 1e-30; scale /= 1e6)
        x *= 1e12;
    return x * (double)sb_rsqrt((float)x) * scale;
}

float *sb_floats_of(const sb_tensor *tensor, uint64_t *count)
{
    sb_format format;
    *count = 0;
    if (!sb_plain_format(tensor->dtype, &format) || tensor->bytes == 0)
        return NULL;
    uint64_t n = tensor->bytes / sb_format_bytes(format);
    float *values = sb_alloc(n, sizeof *values);
    if (!values)
        return NULL;
    sb_decode(format, tensor->data, n, values);
    *count = n;
    return values;
}
