#include "ref/run/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/state/piece.h"

struct sb_prefix_store {
    const sb_model *model;
    sb_knobs knobs;
    int mtp;
    size_t block;
    uint64_t most_bytes;
    sb_prefix_entry *entries;
    size_t count, room;
    uint64_t bytes; /* of all entries */
    uint64_t uses;
};

sb_status sb_prefix_store_new(const sb_model *model, const sb_prefix_options *options,
                              sb_prefix_store **out, sb_error *err)
{
    if (options->block == 0)
        return sb_fail(err, SB_ERR_USAGE, "blocks of 0 tokens; expected at least 1");
    sb_prefix_store *store = sb_alloc(1, sizeof *store);
    if (!store)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a store of prefixes");
    store->model = model;
    store->mtp = options->mtp;
    store->block = options->block;
    store->most_bytes = options->most_bytes;
    if (options->knobs)
        store->knobs = *options->knobs;
    else
        sb_knobs_exact(&store->knobs);
    *out = store;
    return SB_OK;
}

static void release(sb_prefix_entry *entry)
{
    free(entry->tokens);
    sb_state_free(entry->state);
}

void sb_prefix_store_free(sb_prefix_store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < store->count; i++)
        release(&store->entries[i]);
    free(store->entries);
    free(store);
}

size_t sb_prefix_count(const sb_prefix_store *store)
{
    return store->count;
}

const sb_prefix_entry *sb_prefix_at(const sb_prefix_store *store, size_t i)
{
    return &store->entries[i];
}

static int begins_with(const uint32_t *tokens, size_t n, const sb_prefix_entry *entry)
{
    return entry->n <= n && memcmp(entry->tokens, tokens, entry->n * sizeof *tokens) == 0;
}

/* S-12: "the longest copy that is shorter than the sequence and whose tokens are all its own" */
const sb_prefix_entry *sb_prefix_find(const sb_prefix_store *store, const uint32_t *tokens,
                                      size_t n)
{
    const sb_prefix_entry *best = NULL;
    for (size_t i = 0; i < store->count; i++) {
        const sb_prefix_entry *entry = &store->entries[i];
        if (entry->n < n && (!best || entry->n > best->n) && begins_with(tokens, n, entry))
            best = entry;
    }
    return best;
}

static sb_prefix_entry *find_equal(sb_prefix_store *store, const uint32_t *tokens, size_t n)
{
    for (size_t i = 0; i < store->count; i++)
        if (store->entries[i].n == n && begins_with(tokens, n, &store->entries[i]))
            return &store->entries[i];
    return NULL;
}

static void use(sb_prefix_store *store, sb_prefix_entry *entry)
{
    entry->used = ++store->uses;
}

/* Makes room for `bytes` more bytes: removes the least recently used entries and keeps the order of
 * the others. */
static void evict(sb_prefix_store *store, uint64_t bytes)
{
    while (store->most_bytes && store->count && store->bytes + bytes > store->most_bytes) {
        size_t oldest = 0;
        for (size_t i = 1; i < store->count; i++)
            if (store->entries[i].used < store->entries[oldest].used)
                oldest = i;
        store->bytes -= store->entries[oldest].bytes;
        release(&store->entries[oldest]);
        store->count--;
        memmove(&store->entries[oldest], &store->entries[oldest + 1],
                (store->count - oldest) * sizeof *store->entries);
    }
}

static uint64_t size_of(const sb_state *state, size_t n)
{
    uint64_t bytes = n * sizeof(uint32_t);
    for (size_t i = 0; i < sb_state_pieces(state); i++) {
        sb_piece piece = sb_state_piece(state, i);
        bytes += sb_piece_elements(&piece) * sizeof(float);
    }
    return bytes;
}

static sb_status digests(const sb_state *state, sb_digest *target, sb_digest *mtp, sb_error *err)
{
    *mtp = (sb_digest){{0}};
    sb_status status = sb_state_digest(state, target, err);
    return !status && state->has_mtp ? sb_state_mtp_digest(state, mtp, err) : status;
}

static sb_status check_put(const sb_prefix_store *store, size_t n, const sb_state *state,
                           sb_error *err)
{
    if (state->config != &store->model->config || !state->has_mtp != !store->mtp)
        return sb_fail(err, SB_ERR_USAGE,
                       "the state does not fit the prefix store: it belongs to another model, or "
                       "only one of them has an MTP head");
    if (n == 0 || n % store->block != 0 || state->position != n)
        return sb_fail(
            err, SB_ERR_USAGE,
            "the state is at position %llu, but the prefix has %zu tokens in blocks of %zu",
            (unsigned long long)state->position, n, store->block);
    return SB_OK;
}

/* Takes ownership of the state: stores it, or frees it on failure. */
static sb_status put(sb_prefix_store *store, const uint32_t *tokens, size_t n, sb_state *state,
                     sb_error *err)
{
    sb_prefix_entry entry = {.n = n, .state = state, .bytes = size_of(state, n)};
    sb_status status = digests(state, &entry.target, &entry.mtp, err);
    if (!status && store->count == store->room) {
        size_t room = store->room ? 2 * store->room : 16;
        sb_prefix_entry *grown = sb_realloc(store->entries, room, sizeof *grown);
        store->entries = grown ? grown : store->entries;
        store->room = grown ? room : store->room;
        status = grown ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a prefix");
    }
    if (!status) {
        entry.tokens = sb_alloc(n, sizeof *entry.tokens);
        status = entry.tokens ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a prefix");
    }
    int fits = !store->most_bytes || entry.bytes <= store->most_bytes;
    if (status || !fits) {
        release(&entry);
        return status;
    }
    memcpy(entry.tokens, tokens, n * sizeof *tokens);
    evict(store, entry.bytes);
    use(store, &entry);
    store->entries[store->count++] = entry;
    store->bytes += entry.bytes;
    return SB_OK;
}

sb_status sb_prefix_put(sb_prefix_store *store, const uint32_t *tokens, size_t n,
                        const sb_state *state, sb_error *err)
{
    sb_state *copy = NULL;
    sb_status status = check_put(store, n, state, err);
    if (status)
        return status;
    sb_prefix_entry *equal = find_equal(store, tokens, n);
    if (equal) {
        use(store, equal);
        return SB_OK;
    }
    status = sb_state_copy(state, &copy, err);
    return status ? status : put(store, tokens, n, copy, err);
}

static sb_status check_session(const sb_prefix_store *store, const sb_session *session,
                               sb_error *err)
{
    if (sb_session_model(session) == store->model && !sb_session_has_mtp(session) == !store->mtp &&
        memcmp(sb_session_knobs(session), &store->knobs, sizeof store->knobs) == 0)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE,
                   "the session does not fit the prefix store: another model, other knobs, or only "
                   "one of them has an MTP head");
}

/* S-12: "A later sequence continues from the longest copy" */
static sb_status restore(sb_prefix_store *store, sb_session *session, const uint32_t *tokens,
                         size_t n, size_t *reused, sb_error *err)
{
    const sb_prefix_entry *found = sb_prefix_find(store, tokens, n);
    sb_digest target, mtp;
    *reused = 0;
    sb_session_reset(session);
    if (!found)
        return SB_OK;
    sb_status status = digests(found->state, &target, &mtp, err);
    if (status)
        return status;
    if (strcmp(target.hex, found->target.hex) != 0 || strcmp(mtp.hex, found->mtp.hex) != 0)
        return sb_fail(
            err, SB_ERR_DIFF,
            "the state stored for a prefix of %zu tokens was changed: its digest is %s, but was %s",
            found->n, strcmp(target.hex, found->target.hex) ? target.hex : mtp.hex,
            strcmp(target.hex, found->target.hex) ? found->target.hex : found->mtp.hex);
    status = sb_session_set_state(session, found->state, err);
    if (status)
        return status;
    use(store, &store->entries[found - store->entries]);
    *reused = found->n;
    return SB_OK;
}

/* S-12: "in calls that end at the multiples of B and at the end of the sequence" */
sb_status sb_prefix_feed(sb_prefix_store *store, sb_session *session, const uint32_t *tokens,
                         size_t n, size_t *reused, sb_error *err)
{
    sb_status status = check_session(store, session, err);
    if (!status && n == 0)
        status = sb_fail(err, SB_ERR_USAGE, "a sequence needs at least one token");
    if (!status)
        status = restore(store, session, tokens, n, reused, err);
    for (size_t at = status ? n : *reused; at < n && !status;) {
        size_t rows = store->block - at % store->block;
        rows = rows < n - at ? rows : n - at;
        status = sb_session_feed(session, tokens + at, rows, err);
        at += rows;
        if (!status && at % store->block == 0)
            status = sb_prefix_put(store, tokens, at, sb_session_state(session), err);
    }
    return status;
}

/* Stores the state after tokens 0 .. at - 1: the session's current state if row is 0, else the
 * state before row `row` of its last round. */
static sb_status put_row(sb_prefix_store *store, const sb_session *session, const uint32_t *tokens,
                         size_t at, size_t row, size_t *stored, sb_error *err)
{
    sb_prefix_entry *equal = find_equal(store, tokens, at);
    sb_state *state = NULL;
    if (equal) {
        use(store, equal);
        return SB_OK;
    }
    sb_status status = row ? sb_session_state_at(session, row, &state, err)
                           : sb_state_copy(sb_session_state(session), &state, err);
    if (status)
        /* under replay there are no states of rows */
        return status == SB_ERR_USAGE ? SB_OK : status;
    status = check_put(store, at, state, err);
    if (status) { /* the state is not at position `at`: the caller's rows are not those of the last
                     round */
        sb_state_free(state);
        return status;
    }
    status = put(store, tokens, at, state, err);
    *stored += !status;
    return status;
}

/* S-12: "After a round, under knobs with which S-2 holds (S-3), the state at a multiple of B within
 * the kept rows is stored, too" */
sb_status sb_prefix_round(sb_prefix_store *store, const sb_session *session, const uint32_t *tokens,
                          size_t n, size_t rows, size_t *stored, sb_error *err)
{
    *stored = 0;
    sb_status status = check_session(store, session, err);
    if (!status && (rows > n || sb_session_state(session)->position != n))
        status = sb_fail(err, SB_ERR_USAGE, "%zu tokens, %zu of them by a round, at position %llu",
                         n, rows, (unsigned long long)sb_session_state(session)->position);
    if (status || !sb_knobs_split_anywhere(&store->knobs))
        return status;
    size_t before = n - rows;
    for (size_t at = before - before % store->block + store->block; !status && at <= n;
         at += store->block)
        status = put_row(store, session, tokens, at, at < n ? at - before : 0, stored, err);
    return status;
}
