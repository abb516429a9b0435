/* resident.cc - memory that outlives an op: resident arrays, scratch of a step, constants. */
#include "gpu/op/resident.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/op/body.h"

static sb_status refuse(sb_gpu *gpu, const char *name)
{
    return sb_fail(&gpu->err, SB_ERR_USAGE, "there is no memory for %s yet", name);
}

/* --- resident arrays -------------------------------------------------------------------------- */
sb_status sb_gpu_reside(sb_gpu *gpu, const char *name, size_t bytes, void **at)
{
    sb_gpu_resident *r = static_cast<sb_gpu_resident *>(sb_alloc(1, sizeof *r));
    *at = nullptr;
    if (!r)
        return sb_fail(&gpu->err, SB_ERR_MEMORY, "out of memory for %s", name);
    const sb_status status = sb_gpu_allot(gpu, &r->piece, name, bytes);
    if (status) {
        sb_gpu_drop(gpu, &r->piece);
        free(r);
        return status;
    }
    r->next = gpu->residents;
    gpu->residents = r;
    *at = r->piece.at;
    return SB_OK;
}

void sb_gpu_depart(sb_gpu *gpu, void *at)
{
    for (sb_gpu_resident **r = &gpu->residents; at && *r; r = &(*r)->next)
        if ((*r)->piece.at == at) {
            sb_gpu_resident *const gone = *r;
            *r = gone->next;
            sb_gpu_drop(gpu, &gone->piece);
            free(gone);
            return;
        }
}

sb_gpu_piece *sb_gpu_residence(const sb_gpu *gpu, const void *at)
{
    const uintptr_t place = reinterpret_cast<uintptr_t>(at);
    for (sb_gpu_resident *r = gpu->residents; r; r = r->next)
        if (place - reinterpret_cast<uintptr_t>(r->piece.at) < r->piece.bytes)
            return &r->piece;
    return nullptr;
}

/* Returns the part at this address. Its `of` is NULL, with a message, if the range is not inside
 * one resident array. */
static sb_gpu_part part_at(sb_gpu *gpu, const void *at, size_t bytes)
{
    sb_gpu_piece *const piece = sb_gpu_residence(gpu, at);
    const size_t offset =
        piece ? reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(piece->at) : 0;
    if (!piece || bytes > piece->bytes - offset) {
        sb_fail(&gpu->err, SB_ERR_USAGE, "%zu bytes that are not resident", bytes);
        return sb_gpu_part();
    }
    return {piece, offset, bytes};
}

sb_status sb_gpu_write(sb_gpu *gpu, void *resident, const void *host, size_t bytes)
{
    const sb_gpu_part part = part_at(gpu, resident, bytes);
    return part.of ? sb_gpu_set(gpu, &part, host) : SB_ERR_USAGE;
}

sb_status sb_gpu_read(sb_gpu *gpu, void *host, const void *resident, size_t bytes)
{
    const sb_gpu_part part = part_at(gpu, resident, bytes);
    return part.of ? sb_gpu_get(gpu, &part, host) : SB_ERR_USAGE;
}

void sb_gpu_void(sb_gpu *gpu, void *resident, size_t bytes)
{
    const sb_gpu_part part = part_at(gpu, resident, bytes);
    if (part.of)
        sb_gpu_unset(gpu, &part);
}

/* --- scratch of a step ------------------------------------------------------------------------ */
sb_gpu_pool *sb_gpu_pool_new(sb_gpu *)
{
    return static_cast<sb_gpu_pool *>(sb_alloc(1, sizeof(sb_gpu_pool)));
}

void sb_gpu_pool_free(sb_gpu *gpu, sb_gpu_pool *pool)
{
    while (pool && pool->first) {
        sb_gpu_pooled *const gone = pool->first;
        pool->first = gone->next;
        sb_gpu_drop(gpu, &gone->piece);
        free(gone);
    }
    free(pool);
}

void sb_gpu_use_pool(sb_gpu *gpu, sb_gpu_pool *pool)
{
    gpu->pool = pool;
}

/* Buffers with different names are not shared, so that messages and counts name the right
 * buffer. */
sb_gpu_pooled *sb_gpu_from_pool(sb_gpu *gpu, const char *name, size_t bytes)
{
    sb_gpu_pooled *p = gpu->pool->first;
    while (p && (p->taken || p->piece.bytes != bytes || strcmp(p->name, name) != 0))
        p = p->next;
    if (!p) {
        if (gpu->sealed || !(p = static_cast<sb_gpu_pooled *>(sb_alloc(1, sizeof *p)))) {
            refuse(gpu, name);
            return nullptr;
        }
        if (sb_gpu_allot(gpu, &p->piece, name, bytes)) {
            sb_gpu_drop(gpu, &p->piece);
            free(p);
            return nullptr;
        }
        p->name = name;
        p->next = gpu->pool->first;
        gpu->pool->first = p;
    }
    const sb_gpu_part whole = {&p->piece, 0, bytes};
    sb_gpu_unset(gpu, &whole);
    p->taken = true;
    return p;
}

void sb_gpu_seal(sb_gpu *gpu, bool sealed)
{
    gpu->sealed = sealed;
}

/* --- constants -------------------------------------------------------------------------------- */
static sb_gpu_constant *known(const sb_gpu *gpu, const void *host, size_t bytes)
{
    sb_gpu_constant *c = gpu->constants;
    while (c && (c->piece.bytes != bytes || memcmp(c->host, host, bytes) != 0))
        c = c->next;
    return c;
}

static void free_constant(sb_gpu *gpu, sb_gpu_constant *c)
{
    sb_gpu_drop(gpu, &c->piece);
    free(c->host);
    free(c);
}

static sb_gpu_constant *made(sb_gpu *gpu, const char *name, const void *host, size_t bytes)
{
    sb_gpu_constant *c = static_cast<sb_gpu_constant *>(sb_alloc(1, sizeof *c));
    if (!c || !(c->host = sb_alloc(bytes, 1))) {
        free(c);
        sb_fail(&gpu->err, SB_ERR_MEMORY, "out of memory for %s", name);
        return nullptr;
    }
    memcpy(c->host, host, bytes);
    sb_status status = sb_gpu_allot(gpu, &c->piece, name, bytes);
    const sb_gpu_part whole = {&c->piece, 0, bytes};
    if (!status)
        status = sb_gpu_set(gpu, &whole, host);
    if (status) {
        free_constant(gpu, c);
        return nullptr;
    }
    c->next = gpu->constants;
    return gpu->constants = c;
}

sb_gpu_part sb_gpu_work::bring(const char *name, const void *host, size_t bytes)
{
    if (ok() && gpu->mode != SB_GPU_COMPUTES)
        did(SB_ERR_SKIPPED);
    if (!ok())
        return sb_gpu_part();
    sb_gpu_constant *c = known(gpu, host, bytes);
    if (!c && gpu->sealed)
        did(refuse(gpu, name));
    else if (!c && !(c = made(gpu, name, host, bytes)))
        did(SB_ERR_MEMORY);
    return c ? sb_gpu_part{&c->piece, 0, bytes} : sb_gpu_part();
}

void sb_gpu_forget_constants(sb_gpu *gpu)
{
    while (gpu->constants) {
        sb_gpu_constant *const gone = gpu->constants;
        gpu->constants = gone->next;
        free_constant(gpu, gone);
    }
}
