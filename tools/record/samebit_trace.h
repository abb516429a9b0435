/* samebit_trace.h - writes a trace that `samebit trace` and `samebit diff` read; docs/trace.md is
 * the contract.
 *
 * One header, C99 or C++11, only the standard library: copy it next to your engine and include it
 * in the file that writes. Report the fed tokens call by call, in the order of the calls:
 *
 *     sbt_trace *t = sbt_open("t", "mine 1.0", 248320, 1);
 *     sbt_sequence chat = sbt_new_sequence(t, -1);
 *     sbt_prompt(t, &chat, ids, 3);
 *     sbt_logits(t, SBT_F32, logits, 1, last);
 *     sbt_end_call(t);
 *     ...
 *     if (sbt_finish(t, message, sizeof message))
 *         complain(message);
 *
 * Errors are sticky: after the first one every call does nothing, and sbt_finish() returns its
 * message and leaves no trace.json. Readers treat that as an incomplete run. Not thread-safe. */
#ifndef SAMEBIT_TRACE_H
#define SAMEBIT_TRACE_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <direct.h>
#else
#include <sys/stat.h>
#endif

typedef enum sbt_dtype { SBT_F32, SBT_BF16, SBT_F16, SBT_I32, SBT_U32, SBT_I64 } sbt_dtype;

/* One sequence and its position. Recomputing a sequence makes it a new one. */
typedef struct sbt_sequence {
    uint32_t number;
    long slot; /* the engine's slot of its state; -1: unknown, not allowed from level 2 on */
    uint64_t position, rounds;
    uint64_t drafted; /* steps of the MTP head since the last round */
    uint64_t began;   /* the position at the beginning of the open call */
    uint64_t call;    /* the number of the open call, from 1 */
    uint32_t parent;  /* if `continues`: the sequence whose state it begins with, at `from` */
    uint64_t from;
    int continues; /* 1 until its first call */
} sbt_sequence;

/* Everything up to "the calls" is internal. */
typedef struct sbt_text {
    char *bytes;
    size_t size, room;
} sbt_text;

typedef struct sbt_array {
    char *name;
    sbt_dtype dtype;
    int rank;
    uint64_t shape[8];
    size_t bytes;
    unsigned char *data;
} sbt_array;

typedef struct sbt_trace {
    char *folder;
    FILE *list; /* trace.json, under another name until it is complete */
    int level;
    uint32_t vocab_size, sequences;
    uint64_t steps, row_count;
    sbt_text rows, logits_rows, rounds, states, prefixes, samplings;
    sbt_array *arrays;
    size_t array_count;
    char error[256];
} sbt_trace;

static inline int sbt_fail(sbt_trace *t, const char *format, ...)
{
    va_list args;
    if (t->error[0])
        return -1;
    va_start(args, format);
    vsnprintf(t->error, sizeof t->error, format, args);
    va_end(args);
    return -1;
}

static inline void sbt_append(sbt_trace *t, sbt_text *to, const char *format, ...)
{
    va_list args, again;
    int length;
    va_start(args, format);
    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0 && to->size + (size_t)length + 1 > to->room) {
        size_t room = 2 * to->room + (size_t)length + 256;
        char *bytes = (char *)realloc(to->bytes, room);
        if (bytes) {
            to->bytes = bytes;
            to->room = room;
        } else {
            length = -1;
        }
    }
    if (length < 0)
        sbt_fail(t, "out of memory");
    else
        to->size += (size_t)vsnprintf(to->bytes + to->size, (size_t)length + 1, format, again);
    va_end(again);
}

/* A name as a JSON string. */
static inline void sbt_quote(sbt_trace *t, sbt_text *to, const char *name)
{
    sbt_append(t, to, "\"");
    for (; *name; name++)
        if (*name == '"' || *name == '\\' || (unsigned char)*name < 32)
            sbt_append(t, to, "\\u%04x", (unsigned)(unsigned char)*name);
        else
            sbt_append(t, to, "%c", *name);
    sbt_append(t, to, "\"");
}

static inline void sbt_numbers(sbt_trace *t, sbt_text *to, const char *key, const uint32_t *ids,
                               size_t count)
{
    sbt_append(t, to, ", \"%s\": [", key);
    for (size_t i = 0; i < count; i++)
        sbt_append(t, to, "%s%lu", i ? ", " : "", (unsigned long)ids[i]);
    sbt_append(t, to, "]");
}

/* FOLDER/NAME in memory that the caller frees. */
static inline char *sbt_path(sbt_trace *t, const char *name)
{
    sbt_text path = {NULL, 0, 0};
    sbt_append(t, &path, "%s/%s", t->folder, name);
    return path.bytes;
}

/* Renames FOLDER/NAME.part to FOLDER/NAME, or removes it if something has failed. */
static inline void sbt_settle(sbt_trace *t, const char *part, const char *name)
{
    char *from = sbt_path(t, part), *to = sbt_path(t, name);
    if (from && to) {
        if (t->error[0])
            remove(from);
        else if (rename(from, to))
            sbt_fail(t, "cannot rename %s", part);
    }
    free(from);
    free(to);
}

static inline size_t sbt_width(sbt_dtype dtype)
{
    return dtype == SBT_I64 ? 8 : dtype == SBT_BF16 || dtype == SBT_F16 ? 2 : 4;
}

/* Writes elements as in memory, or with bytes reversed on a big-endian machine. */
static inline void sbt_write_data(sbt_trace *t, const sbt_array *a, FILE *file)
{
    const uint16_t one = 1;
    size_t width = sbt_width(a->dtype);
    if (*(const unsigned char *)&one == 0)
        for (size_t i = 0; i < a->bytes; i += width)
            for (size_t k = 0; k < width / 2; k++) {
                unsigned char low = a->data[i + k];
                a->data[i + k] = a->data[i + width - 1 - k];
                a->data[i + width - 1 - k] = low;
            }
    if (fwrite(a->data, 1, a->bytes, file) != a->bytes)
        sbt_fail(t, "cannot write the arrays of step %lu", (unsigned long)t->steps);
}

/* The order in a file: wide types first, so that every array starts at a multiple of its element's
 * size. */
static inline int sbt_order(const void *a, const void *b)
{
    const sbt_array *x = (const sbt_array *)a, *y = (const sbt_array *)b;
    size_t wide = sbt_width(x->dtype), other = sbt_width(y->dtype);
    return wide != other ? (wide < other ? 1 : -1) : strcmp(x->name, y->name);
}

static inline void sbt_header(sbt_trace *t, sbt_text *to)
{
    static const char *const names[] = {"F32", "BF16", "F16", "I32", "U32", "I64"};
    uint64_t at = 0;
    sbt_append(t, to, "{\"__metadata__\":{}");
    for (size_t i = 0; i < t->array_count; i++) {
        const sbt_array *a = &t->arrays[i];
        sbt_append(t, to, ",");
        sbt_quote(t, to, a->name);
        sbt_append(t, to, ":{\"dtype\":\"%s\",\"shape\":[", names[a->dtype]);
        for (int k = 0; k < a->rank; k++)
            sbt_append(t, to, "%s%llu", k ? "," : "", (unsigned long long)a->shape[k]);
        sbt_append(t, to, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                   (unsigned long long)(at + a->bytes));
        at += a->bytes;
    }
    sbt_append(t, to, "}");
    while (!t->error[0] && to->size % 8)
        sbt_append(t, to, " ");
}

static inline void sbt_write_arrays(sbt_trace *t)
{
    char name[48], part[56];
    char *path;
    FILE *file;
    sbt_text header = {NULL, 0, 0};
    unsigned char size[8];
    snprintf(name, sizeof name, "step-%06lu.safetensors", (unsigned long)t->steps);
    snprintf(part, sizeof part, "%s.part", name);
    qsort(t->arrays, t->array_count, sizeof *t->arrays, sbt_order);
    sbt_header(t, &header);
    path = sbt_path(t, part);
    file = path && !t->error[0] ? fopen(path, "wb") : NULL;
    free(path);
    if (file) {
        for (int i = 0; i < 8; i++)
            size[i] = (unsigned char)((uint64_t)header.size >> (8 * i));
        if (fwrite(size, 1, 8, file) != 8 ||
            fwrite(header.bytes, 1, header.size, file) != header.size)
            sbt_fail(t, "cannot write %s", part);
        for (size_t i = 0; i < t->array_count; i++)
            sbt_write_data(t, &t->arrays[i], file);
        if (fclose(file))
            sbt_fail(t, "cannot write %s", part);
        sbt_settle(t, part, name);
    } else {
        sbt_fail(t, "cannot create %s in %s", part, t->folder);
    }
    free(header.bytes);
}

static inline void sbt_clear(sbt_trace *t)
{
    for (size_t i = 0; i < t->array_count; i++) {
        free(t->arrays[i].name);
        free(t->arrays[i].data);
    }
    t->array_count = 0;
    t->row_count = 0;
    t->rows.size = t->logits_rows.size = t->rounds.size = t->states.size = 0;
    t->prefixes.size = t->samplings.size = 0;
}

static inline void sbt_row(sbt_trace *t, const sbt_sequence *s, uint64_t position, uint32_t token,
                           const char *kind, int has_round)
{
    if (token >= t->vocab_size)
        sbt_fail(t, "token id is %lu, expected an id below %lu", (unsigned long)token,
                 (unsigned long)t->vocab_size);
    if (s->slot < 0 && t->level >= 2)
        sbt_fail(t, "level %d: sequence %lu has no slot", t->level, (unsigned long)s->number);
    sbt_append(t, &t->rows, "%s{\"sequence\": %lu", t->row_count++ ? ", " : "",
               (unsigned long)s->number);
    if (s->slot >= 0)
        sbt_append(t, &t->rows, ", \"slot\": %ld", s->slot);
    sbt_append(t, &t->rows, ", \"position\": %llu, \"token\": %lu, \"kind\": \"%s\"",
               (unsigned long long)position, (unsigned long)token, kind);
    if (has_round)
        sbt_append(t, &t->rows, ", \"round\": %llu", (unsigned long long)s->rounds);
    sbt_append(t, &t->rows, "}");
}

/* Names the parent of a sequence, once. */
static inline void sbt_name_parent(sbt_trace *t, sbt_sequence *s)
{
    if (!s->continues)
        return;
    sbt_append(t, &t->prefixes, "%s{\"sequence\": %lu, \"parent\": %lu, \"position\": %llu}",
               t->prefixes.size ? ", " : "", (unsigned long)s->number, (unsigned long)s->parent,
               (unsigned long long)s->from);
    s->continues = 0;
}

/* The rows of a sequence are consecutive, so a call may feed it only once. */
static inline int sbt_begin(sbt_trace *t, sbt_sequence *s)
{
    if (t->error[0])
        return -1;
    if (s->call == t->steps + 1)
        return sbt_fail(t, "sequence %lu was fed twice in one call", (unsigned long)s->number);
    s->call = t->steps + 1;
    s->began = s->position;
    sbt_name_parent(t, s);
    return 0;
}

/* --- the calls: everything below is for users ------------------------------------------------- */

/* Makes FOLDER, which must not exist. NULL only if memory is out. */
static inline sbt_trace *sbt_open(const char *folder, const char *engine, uint32_t vocab_size,
                                  int level)
{
    sbt_trace *t = (sbt_trace *)calloc(1, sizeof *t);
    sbt_text head = {NULL, 0, 0};
    char *path;
    if (!t)
        return NULL;
    t->level = level;
    t->vocab_size = vocab_size;
    t->folder = (char *)malloc(strlen(folder) + 1);
    if (!t->folder) {
        free(t);
        return NULL;
    }
    strcpy(t->folder, folder);
    if (!engine[0] || strlen(engine) >= 96 || vocab_size == 0 || level < 0 || level > 4)
        sbt_fail(
            t,
            "engine has %lu bytes, level is %d, vocab_size is %lu; expected 1 to 95 bytes, 0 to "
            "4, at least 1",
            (unsigned long)strlen(engine), level, (unsigned long)vocab_size);
#ifdef _WIN32
    else if (_mkdir(folder))
#else
    else if (mkdir(folder, 0777))
#endif
        sbt_fail(t, "cannot make the folder %s", folder);
    path = sbt_path(t, "trace.json.part");
    if (path && !t->error[0]) {
        t->list = fopen(path, "wb");
        if (!t->list)
            sbt_fail(t, "cannot create %s", path);
    }
    free(path);
    sbt_append(t, &head, "{\"format\": \"samebit-trace\", \"version\": 3, \"engine\": ");
    sbt_quote(t, &head, engine);
    if (!t->error[0])
        fprintf(t->list, "%s", head.bytes);
    free(head.bytes);
    return t;
}

/* Sets another key of the head, before the first call: profile, arithmetic, checkpoint, note,
 * rollback, drafter, functions, prefix. */
static inline void sbt_head(sbt_trace *t, const char *key, const char *value)
{
    sbt_text text = {NULL, 0, 0};
    if (t->steps)
        sbt_fail(t, "%s: was set after the first call, expected before it", key);
    sbt_quote(t, &text, value);
    if (!t->error[0])
        fprintf(t->list, ", \"%s\": %s", key, text.bytes);
    free(text.bytes);
}

/* The same for a number: delta_chunk, prefix_block. */
static inline void sbt_head_number(sbt_trace *t, const char *key, uint32_t value)
{
    if (t->steps)
        sbt_fail(t, "%s: was set after the first call, expected before it", key);
    if (!t->error[0])
        fprintf(t->list, ", \"%s\": %lu", key, (unsigned long)value);
}

static inline sbt_sequence sbt_new_sequence(sbt_trace *t, long slot)
{
    sbt_sequence s = {t->sequences++, slot, 0, 0, 0, 0, 0, 0, 0, 0};
    return s;
}

/* A sequence that begins with the state of PARENT after its first POSITION tokens: a hit of the
 * prefix cache. Feed it the tokens from POSITION on. */
static inline sbt_sequence sbt_continue(sbt_trace *t, const sbt_sequence *parent, uint64_t position,
                                        long slot)
{
    sbt_sequence s = sbt_new_sequence(t, slot);
    if (!position || position > parent->position)
        sbt_fail(t, "sequence %lu was fed %llu tokens and cannot be continued at %llu",
                 (unsigned long)parent->number, (unsigned long long)parent->position,
                 (unsigned long long)position);
    s.parent = parent->number;
    s.position = s.from = position;
    s.continues = 1;
    return s;
}

/* How the tokens of a sequence are drawn; docs/trace.md explains the names. */
typedef struct sbt_sampler {
    double temperature, top_p, min_p;
    double repetition_penalty, presence_penalty, frequency_penalty;
    uint32_t top_k, penalty_window;
    const char *sampler, *generator; /* NULL: not declared */
    long long seed;                  /* -1: independent draws; -2: not declared */
} sbt_sampler;

/* A sampler that draws from the softmax of the logits; change what your engine does. */
static inline sbt_sampler sbt_plain_sampler(void)
{
    sbt_sampler s = {1, 1, 0, 1, 0, 0, 0, 0, NULL, NULL, -2};
    return s;
}

/* Declares the sampler of a sequence that the open call feeds, from its next token on. */
static inline void sbt_sampling(sbt_trace *t, const sbt_sequence *s, const sbt_sampler *p)
{
    sbt_text *to = &t->samplings;
    sbt_append(t, to, "%s{\"sequence\": %lu, \"temperature\": %.9g, \"top_k\": %lu",
               to->size ? ", " : "", (unsigned long)s->number, p->temperature,
               (unsigned long)p->top_k);
    sbt_append(t, to, ", \"top_p\": %.9g, \"min_p\": %.9g", p->top_p, p->min_p);
    sbt_append(t, to, ", \"repetition_penalty\": %.9g, \"presence_penalty\": %.9g",
               p->repetition_penalty, p->presence_penalty);
    sbt_append(t, to, ", \"frequency_penalty\": %.9g, \"penalty_window\": %lu",
               p->frequency_penalty, (unsigned long)p->penalty_window);
    if (p->sampler)
        sbt_append(t, to, ", \"sampler\": \"%s\"", p->sampler);
    if (p->generator)
        sbt_append(t, to, ", \"generator\": \"%s\"", p->generator);
    if (p->seed >= 0)
        sbt_append(t, to, ", \"seed\": %lld", p->seed);
    else if (p->seed == -1)
        sbt_append(t, to, ", \"seed\": null");
    sbt_append(t, to, "}");
}

/* Feeds prompt tokens, all at once or in pieces. */
static inline void sbt_prompt(sbt_trace *t, sbt_sequence *s, const uint32_t *tokens, size_t count)
{
    if (sbt_begin(t, s))
        return;
    for (size_t i = 0; i < count; i++)
        sbt_row(t, s, s->position++, tokens[i], "prompt", 0);
}

/* Feeds the last generated token. */
static inline void sbt_decode(sbt_trace *t, sbt_sequence *s, uint32_t token)
{
    if (!sbt_begin(t, s))
        sbt_row(t, s, s->position++, token, "decode", 0);
}

/* A speculative round: feeds the last emitted token and all drafts. ACCEPTED counts drafts, never
 * the bonus token; EMITTED are the accepted drafts and the token after them. */
static inline void sbt_verify(sbt_trace *t, sbt_sequence *s, uint32_t token, const uint32_t *drafts,
                              size_t count, size_t accepted, const uint32_t *emitted,
                              size_t emitted_count)
{
    if (sbt_begin(t, s))
        return;
    if (accepted > count) {
        sbt_fail(t, "accepted is %lu, expected 0 to %lu, the number of drafts",
                 (unsigned long)accepted, (unsigned long)count);
        return;
    }
    for (size_t i = 0; i <= count; i++)
        sbt_row(t, s, s->position + i, i ? drafts[i - 1] : token, "verify", 1);
    sbt_append(t, &t->rounds, "%s{\"sequence\": %lu, \"round\": %llu, \"position\": %llu",
               t->rounds.size ? ", " : "", (unsigned long)s->number, (unsigned long long)s->rounds,
               (unsigned long long)s->position);
    sbt_numbers(t, &t->rounds, "drafts", drafts, count);
    sbt_append(t, &t->rounds, ", \"accepted\": %lu", (unsigned long)accepted);
    sbt_numbers(t, &t->rounds, "emitted", emitted, emitted_count);
    sbt_append(t, &t->rounds, "}");
    s->position += 1 + accepted;
    s->rounds++;
    s->drafted = 0;
}

/* After sbt_verify: the round's number of accepted drafts was forced, not decided by the model. */
static inline void sbt_forced(sbt_trace *t)
{
    if (t->error[0])
        return;
    if (!t->rounds.size) {
        sbt_fail(t, "sbt_forced was called without sbt_verify before it");
        return;
    }
    t->rounds.size--; /* the brace */
    sbt_append(t, &t->rounds, ", \"forced\": true}");
}

/* One step of the MTP head, in its own call: feed first the last emitted token, then the drafts. */
static inline void sbt_draft(sbt_trace *t, sbt_sequence *s, uint32_t token)
{
    if (!t->error[0])
        sbt_row(t, s, s->position + s->drafted++, token, "draft", 1);
}

/* Copies the values of a tap; axis 0 is the rows of the call. */
static inline void sbt_tensor(sbt_trace *t, const char *name, sbt_dtype dtype, int rank,
                              const uint64_t *shape, const void *data)
{
    sbt_array a;
    sbt_array *grown;
    if (t->error[0])
        return;
    memset(&a, 0, sizeof a);
    if (rank < 0 || rank > 8) {
        sbt_fail(t, "%s has %d axes, expected at most 8", name, rank);
        return;
    }
    a.dtype = dtype;
    a.rank = rank;
    a.bytes = sbt_width(dtype);
    for (int i = 0; i < rank; i++) {
        a.shape[i] = shape[i];
        a.bytes *= (size_t)shape[i];
    }
    a.name = (char *)malloc(strlen(name) + 1);
    a.data = (unsigned char *)malloc(a.bytes ? a.bytes : 1);
    grown = (sbt_array *)realloc(t->arrays, (t->array_count + 1) * sizeof a);
    if (grown)
        t->arrays = grown;
    if (!a.name || !a.data || !grown) {
        free(a.name);
        free(a.data);
        sbt_fail(t, "out of memory");
        return;
    }
    strcpy(a.name, name);
    memcpy(a.data, data, a.bytes);
    t->arrays[t->array_count++] = a;
}

/* Logits [COUNT, vocab_size] of the call's rows ROWS, in ascending order; NULL: all rows. */
static inline void sbt_logits(sbt_trace *t, sbt_dtype dtype, const void *logits, size_t count,
                              const uint32_t *rows)
{
    uint64_t shape[2];
    shape[0] = count;
    shape[1] = t->vocab_size;
    sbt_tensor(t, "logits", dtype, 2, shape, logits);
    if (rows)
        sbt_numbers(t, &t->logits_rows, "logits_rows", rows, count);
}

/* The sequence's state before the open call, which the call reads. Digests may be NULL. */
static inline void sbt_state(sbt_trace *t, const sbt_sequence *s, const char *target,
                             const char *mtp)
{
    uint64_t at = s->call == t->steps + 1 ? s->began : s->position;
    sbt_append(t, &t->states, "%s{\"sequence\": %lu, \"position\": %llu",
               t->states.size ? ", " : "", (unsigned long)s->number, (unsigned long long)at);
    if (target)
        sbt_append(t, &t->states, ", \"target\": \"%s\"", target);
    if (mtp)
        sbt_append(t, &t->states, ", \"mtp\": \"%s\"", mtp);
    sbt_append(t, &t->states, "}");
}

/* An array of this state, by its name in docs/state.md: "layers.0.linear_attn.conv_state". */
static inline void sbt_state_tensor(sbt_trace *t, const sbt_sequence *s, const char *piece,
                                    sbt_dtype dtype, int rank, const uint64_t *shape,
                                    const void *data)
{
    sbt_text name = {NULL, 0, 0};
    sbt_append(t, &name, "state.%lu.%s", (unsigned long)s->number, piece);
    if (!t->error[0])
        sbt_tensor(t, name.bytes, dtype, rank, shape, data);
    free(name.bytes);
}

/* Ends the call and writes its arrays. */
static inline void sbt_end_call(sbt_trace *t)
{
    if (!t->error[0] && t->array_count)
        sbt_write_arrays(t);
    if (!t->error[0]) {
        if (!t->steps)
            fprintf(t->list, ", \"vocab_size\": %lu, \"level\": %d, \"steps\": [",
                    (unsigned long)t->vocab_size, t->level);
        fprintf(t->list, "%s{\"step\": %llu, \"tensors\": %lu, \"rows\": [%s]%s",
                t->steps ? ", " : "", (unsigned long long)t->steps, (unsigned long)t->array_count,
                t->rows.size ? t->rows.bytes : "", t->logits_rows.size ? t->logits_rows.bytes : "");
        if (t->rounds.size)
            fprintf(t->list, ", \"rounds\": [%s]", t->rounds.bytes);
        if (t->states.size)
            fprintf(t->list, ", \"states\": [%s]", t->states.bytes);
        if (t->prefixes.size)
            fprintf(t->list, ", \"prefixes\": [%s]", t->prefixes.bytes);
        if (t->samplings.size)
            fprintf(t->list, ", \"sampling\": [%s]", t->samplings.bytes);
        fprintf(t->list, "}");
    }
    t->steps++;
    sbt_clear(t);
}

/* Ends the trace and frees T. Returns 0 for a complete trace, or -1 with the error in MESSAGE. */
static inline int sbt_finish(sbt_trace *t, char *message, size_t room)
{
    int status;
    if (!t->steps)
        sbt_fail(t, "the trace has no call");
    if (t->list) {
        if (!t->error[0])
            fprintf(t->list, "]}");
        if (ferror(t->list))
            sbt_fail(t, "cannot write trace.json");
        if (fclose(t->list))
            sbt_fail(t, "cannot write trace.json");
        sbt_settle(t, "trace.json.part", "trace.json");
    }
    status = t->error[0] ? -1 : 0;
    if (room)
        snprintf(message, room, "%s", t->error);
    sbt_clear(t);
    free(t->arrays);
    free(t->rows.bytes);
    free(t->logits_rows.bytes);
    free(t->rounds.bytes);
    free(t->states.bytes);
    free(t->prefixes.bytes);
    free(t->samplings.bytes);
    free(t->folder);
    free(t);
    return status;
}

#endif
