/* fuzz_check.c - any config.json and any list of tensors as a checkpoint: the check finishes,
 * reports its findings in single lines, and reports the same with one thread and with several.
 *
 * Input: config.json; a line "---"; a line for each tensor: its name, dtype, shape ("64x32", "-"
 * for a scalar) and content. The container around them is always sound, so that the changes reach
 * the checks. Lines that cannot be parsed are skipped. */
#include "tests/fuzz/fuzz.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "ref/base/bytes.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/container/file.h"
#include "tests/lib/checkpoint.h"
#include "tools/check/read/check.h"

const char fuzz_name[] = "check";
unsigned long fuzz_accepted;

enum { MOST_BYTES = 1 << 16, MOST_ALL = 1 << 20, MOST_TENSORS = 512, MOST_LINE = 1200 };

/* The file while it grows. */
typedef struct maker {
    char *header;
    size_t header_used;
    unsigned char *data;
    size_t data_used;
    char *names[MOST_TENSORS];
    size_t count;
} maker;

/* Parses a shape such as "64x32". Returns 0 if it is no shape or too large. */
static int read_shape(const char *text, sb_dtype dtype, uint64_t *shape, unsigned *rank,
                      uint64_t *bytes)
{
    *rank = 0;
    for (char *end; strcmp(text, "-") != 0; text = end + 1) {
        if (*rank == SB_MAX_RANK || *text < '0' || *text > '9')
            return 0;
        shape[*rank] = strtoull(text, &end, 10);
        if (shape[*rank] == 0 || shape[*rank] > MOST_BYTES || (*end && *end != 'x'))
            return 0;
        ++*rank;
        if (!*end)
            break;
    }
    return !sb_dtype_bytes(dtype, *rank, shape, bytes, NULL) && *bytes <= MOST_BYTES;
}

/* Weights ('w') and positive scales ('p') as a sound file could have them. */
static uint32_t number(sb_dtype dtype, int positive, uint32_t draw)
{
    uint32_t sign = positive ? 0 : draw >> 31;
    switch (dtype) {
    case SB_DTYPE_BF16:
        return sign << 15 | (0x3c00 + draw % 0x180);
    case SB_DTYPE_F16:
        return sign << 15 | (0x2400 + draw % 0x800);
    case SB_DTYPE_F32:
        return sign << 31 | (0x3c000000 + draw % 0x1800000);
    case SB_DTYPE_F8_E4M3:
        return positive ? 0x30 + draw % 16 : draw & 0xf7;
    case SB_DTYPE_F8_E8M0:
        return 120 + draw % 8;
    default:
        return positive ? 120 + draw % 8 : draw;
    }
}

/* Fills a tensor. 'w' and 'p': see number. 'r': any bytes. '7': the zero points of symmetric codes.
 * "=64,32": these integers. Any other character is the value of each byte. */
static void fill(unsigned char *out, uint64_t bytes, sb_dtype dtype, const char *how, uint64_t key)
{
    unsigned size = sb_dtype_bits(dtype) / 8;
    size = size ? size : 1;
    for (uint64_t i = 0; i < bytes; i++)
        out[i] = *how == 'r'   ? (unsigned char)sb_rng_below(key, i, 256)
                 : *how == '7' ? 0x77
                 : *how == '0' ? 0
                               : (unsigned char)*how;
    for (uint64_t i = 0; (*how == 'w' || *how == 'p') && (i + 1) * size <= bytes; i++)
        for (unsigned b = 0; b < size; b++)
            out[i * size + b] =
                (unsigned char)(number(dtype, *how == 'p', sb_rng_below(key, i, UINT32_MAX)) >>
                                8 * (b % 4));
    for (uint64_t i = 0; (*how == '=' || *how == ',') && (i + 1) * size <= bytes; i++) {
        char *end;
        uint64_t value = strtoull(how + 1, &end, 10);
        for (unsigned b = 0; b < size; b++)
            out[i * size + b] = (unsigned char)(value >> 8 * (b % 8));
        how = end;
    }
}

/* Leaves out names that would have to be escaped in JSON, and repeated names. */
static int is_usable(const maker *m, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] <= ' ' || (unsigned char)name[i] >= 0x7f || name[i] == '"' ||
            name[i] == '\\')
            return 0;
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->names[i], name) == 0)
            return 0;
    return n > 0 && n <= SB_MAX_TENSOR_NAME && strcmp(name, "__metadata__") != 0;
}

static void add_line(maker *m, const char *line)
{
    char name[MOST_LINE], dtype_name[32], shape_text[200], how[100] = "0";
    uint64_t shape[SB_MAX_RANK] = {0}, bytes;
    sb_dtype dtype;
    unsigned rank;
    int words = sscanf(line, "%1199s %31s %199s %99s", name, dtype_name, shape_text, how);
    if (words < 3 || m->count == MOST_TENSORS || !sb_dtype_find(dtype_name, &dtype) ||
        !is_usable(m, name) || !read_shape(shape_text, dtype, shape, &rank, &bytes) ||
        m->data_used + bytes > MOST_ALL)
        return;
    char *to = m->header + m->header_used;
    to += sprintf(to, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", m->count ? "," : "{", name,
                  dtype_name);
    for (unsigned d = 0; d < rank; d++)
        to += sprintf(to, "%s%" PRIu64, d ? "," : "", shape[d]);
    to += sprintf(to, "],\"data_offsets\":[%zu,%zu]}", m->data_used, m->data_used + (size_t)bytes);
    m->header_used = (size_t)(to - m->header);
    fill(m->data + m->data_used, bytes, dtype, how, sb_rng_key(7, name));
    m->data_used += (size_t)bytes;
    m->names[m->count] = malloc(strlen(name) + 1);
    FUZZ_CHECK(m->names[m->count]);
    strcpy(m->names[m->count++], name);
}

static void write_file(const char *folder, const char *name, const unsigned char *const parts[3],
                       const size_t sizes[3])
{
    char *path = sb_path_join(folder, name);
    FILE *file = path ? fopen(path, "wb") : NULL;
    FUZZ_CHECK(file);
    for (size_t i = 0; i < 3; i++)
        FUZZ_CHECK(fwrite(parts[i], 1, sizes[i], file) == sizes[i]);
    FUZZ_CHECK(fclose(file) == 0);
    free(path);
}

/* Makes the folder that the text describes; returns 0 if it has no tensor. */
static int make_folder(const char *folder, const char *text, size_t size)
{
    static const char mark[] = "\n---\n";
    unsigned char length[8];
    maker m = {.header = malloc(MOST_TENSORS * (MOST_LINE + 400u)), .data = malloc(MOST_ALL)};
    FUZZ_CHECK(m.header && m.data);
    const char *list = strstr(text, mark);
    size_t config = list ? (size_t)(list - text) : size;
    for (const char *line = list ? list + strlen(mark) : NULL; line && *line;) {
        char copy[MOST_LINE + 400];
        size_t n = strcspn(line, "\n");
        snprintf(copy, sizeof copy, "%.*s", (int)(n < sizeof copy ? n : sizeof copy - 1), line);
        add_line(&m, copy);
        line += n + (line[n] == '\n');
    }
    m.header_used += (size_t)sprintf(m.header + m.header_used, "}");
    sb_store_u64(length, m.header_used);
    write_file(folder, "config.json",
               (const unsigned char *const[]){(const void *)text, length, length},
               (const size_t[]){config, 0, 0});
    write_file(folder, "model.safetensors",
               (const unsigned char *const[]){length, (const void *)m.header, m.data},
               (const size_t[]){8, m.header_used, m.data_used});
    for (size_t i = 0; i < m.count; i++)
        free(m.names[i]);
    free(m.header);
    free(m.data);
    return m.count > 0;
}

static void check_findings(const sb_findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        const sb_finding *row = &f->rows[i];
        FUZZ_CHECK(row->check >= 1 && row->check <= SB_CHECK_LAST && row->level <= SB_LEVEL_fatal);
        FUZZ_CHECK(*row->message && !strpbrk(row->message, "\n\r\t"));
        FUZZ_CHECK(i == 0 || f->rows[i - 1].check <= row->check);
    }
}

static void check_same(const sb_findings *a, const sb_findings *b)
{
    FUZZ_CHECK(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        FUZZ_CHECK(a->rows[i].check == b->rows[i].check && a->rows[i].level == b->rows[i].level);
        FUZZ_CHECK(strcmp(a->rows[i].tensor, b->rows[i].tensor) == 0);
        FUZZ_CHECK(strcmp(a->rows[i].message, b->rows[i].message) == 0);
    }
}

static sb_status run_check(const sb_check_options *options, int threads, sb_check *check)
{
    sb_error err = {""};
    sb_threads_set((size_t)threads);
    sb_status status = sb_check_run(options, check, &err);
    FUZZ_CHECK(!status || status == SB_ERR_INPUT || status == SB_ERR_UNSUPPORTED);
    if (status)
        FUZZ_CHECK(*err.text && !strpbrk(err.text, "\n\r"));
    check_findings(&check->findings);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *folder;
    char *text = malloc(size + 1);
    uint32_t way = 2166136261u;
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < size; i++)
        way = (way ^ data[i]) * 16777619u;
    if (!folder)
        folder = test_path("fuzz_check", "folder");
    mkdir(folder, 0777);
    if (strlen(text) == size && make_folder(folder, text, size)) {
        sb_check_options options = {.path = folder,
                                    .against = way >> 8 & 1 ? folder : NULL,
                                    .headers_only = (way >> 9 & 7) == 0,
                                    .io = SB_IO_pread};
        sb_check one, other;
        sb_status status = run_check(&options, 1, &one);
        fuzz_accepted += status == SB_OK;
        if ((way >> 12 & 3) == 0) {
            options.io = way >> 14 & 1 ? SB_IO_map : SB_IO_direct;
            FUZZ_CHECK(run_check(&options, 3, &other) == status);
            check_same(&one.findings, &other.findings);
            sb_check_free(&other);
        }
        sb_check_free(&one);
    }
    free(text);
    return 0;
}
