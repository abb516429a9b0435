/* fuzz_sglang.c - folders written by SGLang's dumper or its hooks, with changes in file names and
 * in meaningful parts of files (torch_mutate.h), and with names and passes of other folders. They
 * are refused in one line without control characters, or give steps whose arrays have all their
 * rows.
 *
 * Input: any bytes, the key of the draws. SAMEBIT_FUZZ_KEEP=1 keeps the folder of the last
 * input. */
#include "tests/fuzz/dump_rows.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ref/container/file.h"
#include "tests/fuzz/made_files.h"
#include "tests/fuzz/plain_text.h"
#include "tests/fuzz/torch_mutate.h"
#include "tests/lib/checkpoint.h"
#include "tools/dump/dump.h"

const char fuzz_name[] = "sglang";
unsigned long fuzz_accepted; /* a folder was read completely and had steps */

#define GOLDEN "golden/dumps/arrays/"
#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { FILES = 16, NAME = 256, MOST_SECONDS = 5 };

typedef struct folder {
    const char *path;
    int hook; /* written by hooks, with passes */
    size_t count;
    char names[FILES][NAME];
    torch_seed files[FILES];
} folder;

static folder folders[] = {{.path = GOLDEN "sglang-hook/TP0_PP0_Rank0_pid1", .hook = 1},
                           {.path = GOLDEN "sglang"},
                           {.path = GOLDEN "sglang-whole"},
                           {.path = GOLDEN "bad-sglang-axis"}};

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static const folder *folder_at(size_t i)
{
    folder *f = &folders[i];
    struct dirent **entries;
    if (f->count)
        return f;
    int n = scandir(f->path, &entries, NULL, by_name);
    FUZZ_CHECK(n > 2);
    for (int k = 0; k < n; k++) {
        char *path = sb_path_join(f->path, entries[k]->d_name);
        if (entries[k]->d_name[0] != '.') {
            FUZZ_CHECK(f->count < FILES);
            snprintf(f->names[f->count], NAME, "%s", entries[k]->d_name);
            torch_seed_load(&f->files[f->count++], path);
        }
        free(path);
        free(entries[k]);
    }
    free(entries);
    return f;
}

/* --- names ------------------------------------------------------------------------------------ */

static const char *const numbers[] = {"0",  "1",  "2",    "3",           "00",
                                      "-1", "",   "1e3",  "99999999999", "999999999999999999999",
                                      "x",  " 1", "1\n2", "0x1",         "00000000000000000001"};
static const char *const keys[] = {
    "step", "rank", "dump_index", "name", "layer_id", "recompute_status", "", "steps"};
static const char *const words[] = {"embed",     "logits", "output",   "input_ids",    "positions",
                                    "norm",      "*",      "",         "..",           "\033[2J",
                                    "recompute", "a=b",    "disabled", "\xe2\x80\xae", "\xff"};

/* "Pass00001.pt", or a name close to it. */
static void draw_pass(char *name, json_draws *d)
{
    static const size_t passes[] = {0, 1, 2, 3, 4, 5, 99999, 4294967295};
    size_t n = passes[json_draw(d, COUNT(passes))];
    switch (json_draw(d, 8)) {
    case 0:
        snprintf(name, NAME, "Pass%zu.pt", n);
        return;
    case 1:
        snprintf(name, NAME, "Pass%012zu.pt", n);
        return;
    case 2:
        snprintf(name, NAME, "pass%05zu.pt", n);
        return;
    case 3:
        snprintf(name, NAME, "Pass%05zu.npz", n);
        return;
    default:
        snprintf(name, NAME, "Pass%05zu.pt", n);
    }
}

/* Changes one value of "step=0___rank=0___name=x.pt", or adds or removes a tag. */
static void change_tags(char *name, json_draws *d)
{
    char out[2 * NAME] = "", tag[NAME];
    size_t tags = 1, used = 0;
    for (const char *at = strstr(name, "___"); at; at = strstr(at + 3, "___"))
        tags++;
    size_t chosen = json_draw(d, tags), how = json_draw(d, 6), i = 0;
    name[strlen(name) - 3] = '\0'; /* without .pt */
    for (char *at = name; at; i++) {
        char *next = strstr(at, "___");
        size_t n = next ? (size_t)(next - at) : strlen(at), key = strcspn(at, "=");
        int text = strncmp(at, "name", 4) == 0 || strncmp(at, "recompute", 9) == 0;
        snprintf(tag, sizeof tag, "%.*s", (int)n, at);
        if (i == chosen && how == 0)
            tag[0] = '\0';
        else if (i == chosen && how == 1)
            snprintf(tag, sizeof tag, "%s=%s", keys[json_draw(d, COUNT(keys))],
                     numbers[json_draw(d, COUNT(numbers))]);
        else if (i == chosen)
            snprintf(tag, sizeof tag, "%.*s=%s", (int)(key < n ? key : n), at,
                     text ? words[json_draw(d, COUNT(words))]
                          : numbers[json_draw(d, COUNT(numbers))]);
        int more = i == chosen && how == 2;
        used += (size_t)snprintf(out + used, sizeof out - used, "%s%s%s%s", i ? "___" : "", tag,
                                 more ? "___layer_id=" : "",
                                 more ? numbers[json_draw(d, COUNT(numbers))] : "");
        FUZZ_CHECK(used < sizeof out);
        at = next ? next + 3 : NULL;
    }
    snprintf(name, NAME, "%.250s.pt", out);
}

/* --- the folder ------------------------------------------------------------------------------- */

/* A drawn name may be impossible for a file. */
static void write_file(const char *dir, const char *name, const archive *a)
{
    if (!strchr(name, '/'))
        files_write(dir, name, a->file.bytes, a->file.size);
}

/* Writes one file of a folder, changed or not, under its own name or another. */
static void make_file(const char *dir, const folder *f, size_t i, int changed, json_draws *d)
{
    char name[NAME];
    const folder *other = json_draw(d, 80) ? f : folder_at(json_draw(d, COUNT(folders)));
    size_t from = other == f && json_draw(d, 80) ? i : json_draw(d, other->count);
    archive a = torch_mutate(&other->files[from], changed ? 1 + (unsigned)json_draw(d, 3) : 0, d);
    snprintf(name, sizeof name, "%s", f->names[i]);
    if (json_draw(d, 40) == 0) {
        if (f->hook)
            draw_pass(name, d);
        else
            change_tags(name, d);
    }
    if (json_draw(d, 120))
        write_file(dir, name, &a);
    if (json_draw(d, 120) == 0) { /* a second copy */
        if (f->hook)
            draw_pass(name, d);
        else
            change_tags(name, d);
        write_file(dir, name, &a);
    }
    archive_free(&a);
}

/* Writes into the folder, or into the folder of a rank inside it. */
static const folder *make_folder(const char *path, json_draws *d)
{
    static const char *const ranks[] = {"TP0_PP0_Rank0_pid1", "TP1_PP0_Rank1_pid7", "TP_Rank_pid",
                                        "x"};
    const folder *f = folder_at(json_draw(d, 3) ? json_draw(d, 2) : json_draw(d, COUNT(folders)));
    size_t victim = json_draw(d, 4) ? json_draw(d, f->count) : f->count;
    char *inner = json_draw(d, 4)
                      ? sb_path_join(path, ".")
                      : sb_path_join(path, ranks[json_draw(d, f->hook ? 3 : COUNT(ranks))]);
    FUZZ_CHECK(inner);
    mkdir(inner, 0777);
    for (size_t i = 0; i < f->count; i++)
        make_file(inner, f, i, i == victim, d);
    free(inner);
    if (json_draw(d, 60) == 0) {
        inner = sb_path_join(path, ranks[json_draw(d, COUNT(ranks))]);
        FUZZ_CHECK(inner);
        mkdir(inner, 0777);
        free(inner);
    }
    return f;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void check_refused(sb_status status, const sb_error *err)
{
    FUZZ_CHECK(status == SB_ERR_INPUT || status == SB_ERR_UNSUPPORTED || status == SB_ERR_USAGE);
    FUZZ_CHECK(strlen(err->text) > 10 && text_is_plain(err->text, strlen(err->text)));
    FUZZ_CHECK(!strchr(err->text, '\n'));
}

static const char *map_of(void)
{
    static const char text[] =
        "{\"model.embed_tokens\": \"embed\", \"model.layers.*\": \"layers.*.output\", "
        "\"model.norm\": \"norm\", \"logits_processor\": \"logits\", \"model\": \"\"}";
    static const char *path;
    if (path)
        return path;
    path = test_path("fuzz_sglang", "map.json");
    files_write_text("", path, text);
    return path;
}

/* Reads the folder with the options of its original, mostly. */
static void read_folder(const char *path, const folder *from, json_draws *d)
{
    static const uint32_t ids[] = {1, 5, 3, 7, 2};
    static const uint32_t *const all[] = {ids};
    static const char *const as[] = {"sglang", "sglang-hook", NULL};
    size_t count = from->count > 1 ? 4 : 3;
    sb_dump_options o = {.vocab_size = 8};
    sb_dump *dump = NULL;
    sb_error err = {{0}};
    float sum = 0;
    if (json_draw(d, 10) == 0)
        o.as = as[json_draw(d, COUNT(as))];
    count += json_draw(d, 20) == 0;
    if (from->hook ? json_draw(d, 20) == 0 : json_draw(d, 20) > 5) {
        o.ids = all;
        o.id_count = &count;
        o.sequence_count = 1;
    }
    o.map = (from->hook ? json_draw(d, 20) != 0 : json_draw(d, 20) == 0) ? map_of() : NULL;
    clock_t begin = clock();
    sb_status status = sb_dump_open(path, &o, &dump, &err);
    if (!status)
        status = sb_dump_play(dump, fuzz_take_step, &sum, &err);
    FUZZ_CHECK((double)(clock() - begin) < MOST_SECONDS * (double)CLOCKS_PER_SEC);
    if (status)
        check_refused(status, &err);
    else
        fuzz_accepted++;
    sb_dump_close(dump);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *path;
    json_draws d = {fuzz_key(data, size), 0};
    if (!path)
        path = test_path("fuzz_sglang", "folder");
    mkdir(path, 0777);
    files_empty(path);
    const folder *from = make_folder(path, &d);
    read_folder(path, from, &d);
    if (!getenv("SAMEBIT_FUZZ_KEEP"))
        files_empty(path);
    return 0;
}
