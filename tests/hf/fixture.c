#include "tests/hf/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/fast/dot/dot.h"
#include "ref/formats/format.h"
#include "tests/hf/sha256.h"
#include "tools/make/make.h"

typedef struct hf_piece {
    struct hf_piece *next;
    max_align_t data[];
} hf_piece;

void *hf_alloc(hf_arena *arena, size_t count, size_t size)
{
    size_t most = SIZE_MAX / 2;
    hf_piece *piece =
        size && count > most / size ? NULL : sb_alloc(1, sizeof *piece + count * size);
    if (!piece) {
        fputs("out of memory\n", stderr);
        abort();
    }
    piece->next = arena->pieces;
    arena->pieces = piece;
    return piece->data;
}

float *hf_floats(hf_arena *arena, size_t count)
{
    return hf_alloc(arena, count, sizeof(float));
}

void hf_release(hf_arena *arena)
{
    while (arena->pieces) {
        hf_piece *piece = arena->pieces;
        arena->pieces = piece->next;
        free(piece);
    }
}

const sb_tensor *hf_find(const hf_fixture *fixture, const char *format, ...)
{
    char name[160];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (size_t i = 0; i < fixture->file.count; i++)
        if (strcmp(fixture->file.tensors[i].name, name) == 0)
            return &fixture->file.tensors[i];
    return NULL;
}

size_t hf_rows(const sb_tensor *tensor)
{
    return (size_t)tensor->shape[0];
}

size_t hf_row_size(const sb_tensor *tensor)
{
    size_t size = 1;
    for (unsigned i = 1; i < tensor->rank; i++)
        size *= (size_t)tensor->shape[i];
    return size;
}

float *hf_values(hf_arena *arena, const sb_tensor *tensor)
{
    size_t count = hf_rows(tensor) * hf_row_size(tensor);
    float *values = hf_floats(arena, count);
    for (size_t i = 0; i < count; i++) {
        if (tensor->dtype == SB_DTYPE_I32)
            values[i] = (float)(int32_t)sb_load_u32(tensor->data + 4 * i);
        else if (tensor->dtype == SB_DTYPE_I16)
            values[i] = (float)(int16_t)sb_load_u16(tensor->data + 2 * i);
    }
    if (tensor->dtype == SB_DTYPE_F32)
        sb_decode(SB_FORMAT_f32, tensor->data, count, values);
    else if (tensor->dtype == SB_DTYPE_BF16)
        sb_decode(SB_FORMAT_bf16, tensor->data, count, values);
    return values;
}

/* The SHA-256 over the safetensors files of a folder in order of their names. */
static sb_status folder_digest(const char *folder, char hex[65], sb_error *err)
{
    sb_checkpoint *checkpoint;
    sb_status status = sb_checkpoint_open(folder, &checkpoint, err);
    if (status)
        return status;
    sha256 hash;
    sha256_begin(&hash);
    for (size_t i = 0; i < sb_checkpoint_shards(checkpoint) && !status; i++) {
        char *path = sb_path_join(folder, sb_checkpoint_shard_name(checkpoint, (uint32_t)i));
        sb_map map;
        status = path ? sb_map_open(path, &map, err) : sb_fail(err, SB_ERR_MEMORY, "out of memory");
        free(path);
        if (status)
            break;
        sha256_add(&hash, map.data, map.size);
        sb_map_close(&map);
    }
    sb_checkpoint_close(checkpoint);
    sha256_end(&hash, hex);
    return status;
}

/* The folder for models; it is made if it does not exist. */
static sb_status model_folder(const char *preset, char *path, size_t size, sb_error *err)
{
    const char *tmp = getenv("SAMEBIT_TMP"), *build = getenv("BUILD");
    if (tmp)
        snprintf(path, size, "%s", tmp);
    else
        snprintf(path, size, "%s/test-data", build ? build : "build");
    if (mkdir(path, 0777) && errno != EEXIST)
        return sb_fail(err, SB_ERR_IO, "%s: %s", path, strerror(errno));
    size_t used = strlen(path);
    snprintf(path + used, size - used, "/hf-%s", preset);
    return SB_OK;
}

/* Programs that run at the same time share the folders. One program at a time checks them and makes
 * missing models. Closing the descriptor releases the lock. */
static int lock_folder(const char *folder)
{
    char path[600];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    snprintf(path, sizeof path, "%s.lock", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (fd >= 0 && fcntl(fd, F_SETLKW, &lock) != 0)
        if (errno != EINTR) {
            (void)close(fd);
            fd = -1;
        }
    return fd;
}

/* The configuration of a preset NAME_yarn, as in tools/gen/record.sh. */
static sb_status set_yarn(const char *folder, sb_error *err)
{
    static const char none[] = "\"rope_scaling\": null",
                      yarn[] = "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
                               "\"original_max_position_embeddings\": 64}";
    char path[600], text[8192] = {0};
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "r+");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    const char *at = strstr(text, none);
    if (!at || n == sizeof text - 1) {
        if (file)
            (void)fclose(file);
        return sb_fail(err, SB_ERR_INPUT, "%s has no %s", path, none);
    }
    rewind(file);
    fprintf(file, "%.*s%s%s", (int)(at - text), text, yarn, at + strlen(none));
    return fclose(file) ? sb_fail(err, SB_ERR_IO, "%s: cannot be written", path) : SB_OK;
}

/* Checks the digest before the folder is used. A folder of another version is made anew. */
static sb_status made_model(const char *preset, const char *folder, const hf_fixture *fixture,
                            sb_error *err)
{
    char hex[65];
    sb_status status = SB_OK;
    if (folder_digest(folder, hex, NULL) != SB_OK || strcmp(hex, fixture->sha256) != 0) {
        char base[32];
        snprintf(base, sizeof base, "%.*s", (int)strcspn(preset, "_"), preset);
        sb_make_options options = {.dir = folder, .preset = base, .seed = 42, .replace = 1};
        status = sb_make(&options, err);
        if (!status && strcmp(preset, base) != 0)
            status = set_yarn(folder, err);
        if (!status)
            status = folder_digest(folder, hex, err);
        if (!status && strcmp(hex, fixture->sha256) != 0)
            status =
                sb_fail(err, SB_ERR_DIFF,
                        "%s was recorded from another checkpoint (SHA-256 %s) than preset %s with "
                        "seed 42 makes (%s): record it again",
                        fixture->name, fixture->sha256, preset, hex);
    }
    return status;
}

static sb_status ready_model(const char *preset, hf_fixture *fixture, sb_error *err)
{
    char folder[512];
    sb_status status = sb_math_start(NULL, err);
    if (!status)
        status = model_folder(preset, folder, sizeof folder, err);
    if (status)
        return status;
    int lock = lock_folder(folder);
    if (lock < 0)
        return sb_fail(err, SB_ERR_IO, "%s.lock: %s", folder, strerror(errno));
    status = made_model(preset, folder, fixture, err);
    if (!status)
        status = sb_model_open(folder, &fixture->model, err);
    if (!status && strchr(preset, '_') && !(fixture->model->config.yarn.factor > 0))
        status = sb_fail(err, SB_ERR_INPUT, "%s has no yarn: remove it", folder);
    (void)close(lock);
    return status;
}

/* The digest of the checkpoint, from the metadata of the recording. */
static sb_status read_metadata(hf_fixture *fixture, const char *path, sb_error *err)
{
    size_t length = (size_t)sb_load_u64(fixture->file.bytes);
    json_t *header;
    sb_json_object object;
    const char *digest = NULL;
    sb_status status =
        sb_json_parse((const char *)fixture->file.bytes + 8, length, path, &header, err);
    if (status)
        return status;
    status = sb_json_object_at(json_object_get(header, "__metadata__"), path, "__metadata__",
                               &object, err);
    if (!status)
        status = sb_json_string(&object, "checkpoint_sha256", &digest, err);
    if (!status)
        snprintf(fixture->sha256, sizeof fixture->sha256, "%s", digest);
    json_decref(header);
    return status;
}

static sb_status find_layers(hf_fixture *fixture, sb_error *err)
{
    const sb_config *c = &fixture->model->config;
    unsigned layers = c->layers;
    int dense = 0; /* 1: a mixture with dense layers */
    fixture->gdn = fixture->attention = fixture->mlp = fixture->dense = layers;
    for (unsigned i = layers; i-- > 0;) {
        int mixture = sb_config_layer_experts(c, i) > 0;
        dense |= c->experts > 0 && !mixture;
        if (hf_find(fixture, "op.3.%u.linear_attn.conv", i))
            fixture->gdn = i;
        if (hf_find(fixture, "op.3.%u.self_attn.q_rope", i))
            fixture->attention = i;
        if (!hf_find(fixture, "op.3.%u.%s", i, mixture ? "mlp.gate" : "mlp.act"))
            continue;
        if (mixture || c->experts == 0)
            fixture->mlp = i;
        else
            fixture->dense = i;
    }
    if ((fixture->gdn < layers) != (c->lin_v_heads > 0) || fixture->attention == layers ||
        fixture->mlp == layers || (fixture->dense < layers) != dense)
        return sb_fail(err, SB_ERR_INPUT, "%s has no ops of some kind of layer", fixture->name);
    return SB_OK;
}

sb_status hf_fixture_open(const char *preset, const char *type, hf_fixture *out, sb_error *err)
{
    char path[512];
    const char *folder = getenv("SAMEBIT_HF");
    *out = (hf_fixture){.bf16 = strcmp(type, "bf16") == 0};
    snprintf(out->name, sizeof out->name, "%s.%s", preset, type);
    snprintf(path, sizeof path, "%s/%s.safetensors", folder ? folder : "golden/hf", out->name);
    sb_status status = sb_safetensors_open(path, &out->file, err);
    if (status)
        return status;
    status = read_metadata(out, path, err);
    if (!status)
        status = ready_model(preset, out, err);
    if (!status)
        status = find_layers(out, err);
    if (status)
        hf_fixture_close(out);
    return status;
}

void hf_fixture_close(hf_fixture *fixture)
{
    sb_model_close(fixture->model);
    sb_safetensors_close(&fixture->file);
    *fixture = (hf_fixture){0};
}
