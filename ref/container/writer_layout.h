/* writer_layout.h - plans the contents of all files of a checkpoint before any file is written.
 * Used by writer.c. */
#ifndef SB_CONTAINER_WRITER_LAYOUT_H
#define SB_CONTAINER_WRITER_LAYOUT_H

#include "ref/container/file.h"
#include "ref/container/writer.h"

/* A pair of metadata. It goes to the shard of the named tensor. */
typedef struct sb_writer_pair {
    char *tensor, *key, *value;
    uint32_t shard; /* set by sb_writer_plan */
} sb_writer_pair;

struct sb_writer {
    char *path; /* path of the folder, or of the file with SB_WRITER_FILE */
    unsigned flags;
    uint64_t max_shard_bytes;
    char **names;       /* owns the names of the tensors */
    sb_tensor *tensors; /* in the order of declaration */
    size_t count;
    size_t room;
    size_t *cuts; /* tensors that begin a shard, ascending */
    size_t cut_count;
    sb_writer_pair *pairs; /* sorted by shard and key once planned */
    size_t pair_count, pair_room;
    /* made by sb_writer_plan */
    const sb_tensor **by_name;
    const sb_tensor *
        *by_place; /* in file order: by shard, then in the order of the reference writer */
    size_t shards;
    uint64_t total;     /* bytes of all tensors */
    sb_file_out *files; /* (shards + 1): the shards, then the index */
};

/* A growing text. `failed` is set, and stays set, if an allocation fails. */
typedef struct sb_text {
    char *bytes;
    size_t used;
    size_t room;
    int failed;
} sb_text;

typedef struct sb_shard_name {
    char text[48];
} sb_shard_name;

/* Assigns every tensor to its shard, sets both orders, and refuses a name declared twice. */
sb_status sb_writer_plan(sb_writer *writer, sb_error *err);

/* writer_metadata.c: three functions. The first assigns every pair to its shard, after all tensors
 * are assigned. The second appends the pairs of a shard, each after a comma. The third frees the
 * pairs. */
sb_status sb_writer_plan_metadata(sb_writer *writer, sb_error *err);
void sb_writer_put_metadata(const sb_writer *writer, size_t shard, sb_text *text);
void sb_writer_free_metadata(sb_writer *writer);

/* The first appends formatted text of at most 2560 bytes, the second a JSON string of any
 * length. */
void sb_text_put(sb_text *text, const char *format, ...) SB_PRINTF(2, 3);
void sb_text_string(sb_text *text, const char *string);

/* "model.safetensors" or "model-00001-of-00002.safetensors". */
sb_shard_name sb_writer_shard_name(const sb_writer *writer, size_t shard);

/* True if the name has the form of a shard name. */
int sb_writer_is_shard_name(const char *name);

/* Appends the length, the header and its padding for the shard with tensors by_place[first ..
 * end-1]. */
void sb_writer_header(const sb_writer *writer, size_t first, size_t end, sb_text *text);

/* Appends the text of model.safetensors.index.json. */
void sb_writer_index(const sb_writer *writer, sb_text *text);

#endif
