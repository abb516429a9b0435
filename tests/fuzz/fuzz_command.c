/* fuzz_command.c - command lines made from the real tables of options. Every command runs
 * completely, in its own child process and in an empty folder. It ends with a status of 0 to 4
 * within its time. Unless all is well it prints a message, and never control characters. It prints
 * one JSON document if --json was given. It changes only files that a word of the line names.
 *
 * Input: any bytes, the key of the draws. SAMEBIT_FUZZ_SHOW=1 prints each line and its result. */
#define _GNU_SOURCE

#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tests/fuzz/command_words.h"
#include "tests/fuzz/made_files.h"
#include "tests/fuzz/plain_text.h"
#include "tests/fuzz/program.h"
#include "tests/lib/checkpoint.h"
#include "tools/cli/cli.h"

const char fuzz_name[] = "command";
unsigned long fuzz_accepted; /* the parser accepted the line */

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Limits of a child: CPU seconds, CPU seconds of commands that may exceed any limit, wall seconds,
 * and bytes of a file. */
enum { MOST_CPU = 10, LONG_CPU = 1, MOST_WALL = 120, MOST_FILE = 1 << 26, WORDS = 32 };

static const char *const commands[] = {
#define SB_COMMAND(name, help) #name,
#include "tools/cli/commands.def"
#undef SB_COMMAND
    "bench decode", "vectors protocol"};

static command_table tables[COUNT(commands)];
static char inside[PATH_MAX]; /* the folder where commands run; given/ is beside it */
static guard_told *told;
static int out_fd = -1, err_fd = -1;

/* --- a child ---------------------------------------------------------------------------------- */

static void limit(int what, rlim_t most)
{
    const struct rlimit both = {most, most + 5}; /* so that SIGXCPU comes first, not SIGKILL */
    if (setrlimit(what, &both) != 0)
        _exit(97);
}

/* Never returns. */
static void become(const char *folder, int argc, char **argv, rlim_t seconds)
{
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    int null = open("/dev/null", O_RDONLY);
    if (chdir(folder) != 0 || ftruncate(out_fd, 0) != 0 || ftruncate(err_fd, 0) != 0 ||
        lseek(out_fd, 0, SEEK_SET) != 0 || lseek(err_fd, 0, SEEK_SET) != 0 || dup2(null, 0) < 0 ||
        dup2(out_fd, STDOUT_FILENO) < 0 || dup2(err_fd, STDERR_FILENO) < 0)
        _exit(97);
    setenv("TMPDIR", folder, 1);
    setenv("HF_HOME", "/nonexistent", 1);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, MOST_FILE);
    if (seconds) {
        limit(RLIMIT_CPU, seconds);
        alarm(MOST_WALL);
        guard_begin(inside, argc, argv, told);
    }
    exit(samebit_main(argc, argv));
}

/* Returns the status from wait. seconds 0: no limits and no guard. */
static int run(const char *folder, int argc, char **argv, rlim_t seconds)
{
    int status = -1;
    fflush(NULL);
    memset(told, 0, sizeof *told);
    pid_t child = fork();
    FUZZ_CHECK(child >= 0);
    if (child == 0)
        become(folder, argc, argv, seconds);
    FUZZ_CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static char *printed_to(int fd, size_t *size)
{
    off_t end = lseek(fd, 0, SEEK_END);
    char *text = malloc((size_t)end + 1);
    FUZZ_CHECK(end >= 0 && text && pread(fd, text, (size_t)end, 0) == end);
    text[end] = '\0';
    *size = (size_t)end;
    return text;
}

/* --- once ------------------------------------------------------------------------------------- */

/* Gets the tables of options from the parser itself. */
static void list_tables(void)
{
    static sb_status (*const runs[])(int, char **, sb_error *) = {
#define SB_COMMAND(name, help) sb_cmd_##name,
#include "tools/cli/commands.def"
#undef SB_COMMAND
        sb_cmd_bench, sb_cmd_vectors};
    for (size_t i = 0; i < COUNT(commands); i++) {
        char words[64], *argv[3] = {words};
        sb_error err;
        snprintf(words, sizeof words, "%s", commands[i]);
        char *blank = strchr(words, ' ');
        if (blank) {
            *blank = '\0';
            argv[1] = blank + 1;
        }
        tables[i].name = commands[i];
        guard_list(&tables[i]);
        FUZZ_CHECK(runs[i](1 + (blank != NULL), argv, &err) == SB_ERR_USAGE);
        FUZZ_CHECK(strcmp(err.text, "listed") == 0 && tables[i].count > 0);
    }
}

static void make_given(const char *given)
{
    for (size_t i = 0; command_given[i]; i++) {
        char text[256], *argv[WORDS] = {NULL};
        int argc = 0;
        snprintf(text, sizeof text, "samebit %s", command_given[i]);
        for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
            argv[argc++] = w;
        int status = run(given, argc, argv, 0);
        FUZZ_CHECK(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    }
    files_write_text(given, "ids", "1,2,3\n4,5\n");
    files_write_text(given, "empty", "");
    files_write_text(given, "garbage", "PK\003\004 \xff\xfe { [ \n 1,x");
    files_write_text(given, "json", "{\"model\": \"embed\", \"a\": [1, 2]}");
}

static void start(void)
{
    char given[PATH_MAX + 8];
    const char *root = test_path("fuzz_command", "root");
    mkdir(root, 0777);
    files_empty(root);
    FUZZ_CHECK(realpath(root, inside));
    snprintf(given, sizeof given, "%s/given", inside);
    FUZZ_CHECK(strlen(inside) + 8 < sizeof inside && mkdir(given, 0777) == 0);
    strcat(inside, "/inside");
    FUZZ_CHECK(mkdir(inside, 0777) == 0);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    out_fd = memfd_create("stdout", MFD_CLOEXEC);
    err_fd = memfd_create("stderr", MFD_CLOEXEC);
    FUZZ_CHECK(told != MAP_FAILED && out_fd >= 0 && err_fd >= 0);
    list_tables();
    make_given(given);
}

/* --- laws ------------------------------------------------------------------------------------- */

/* Commands that may exceed any limit: those with large numbers, and those that measure time or
 * plant faults. */
static int may_be_long(const command_words *w)
{
    static const char *const commands_of_time[] = {"bench", "fault"};
    for (size_t i = 0; i < COUNT(commands_of_time); i++)
        if (w->count > 1 && strcmp(w->word[1], commands_of_time[i]) == 0)
            return 1;
    for (int i = 1; i < w->count; i++)
        for (const char *at = w->word[i]; *at; at += strspn(at, "0123456789") + 1) {
            if (strspn(at, "0123456789") >= 4)
                return 1;
            if (!at[strspn(at, "0123456789")])
                break;
        }
    return 0;
}

typedef struct result {
    int code; /* -1: stopped by its time limit */
    char *out, *err;
    size_t out_size, err_size;
} result;

static void show(const command_words *w, const result *r)
{
    for (int i = 0; i < w->count; i++)
        fprintf(stderr, "%s'%s'", i ? " " : "", SB_SHOW(w->word[i]));
    fprintf(stderr, ": %d\n  stdout: %.300s\n  stderr: %.600s\n", r->code, r->out, r->err);
}

static int is_document(const result *r)
{
    json_t *document = json_loadb(r->out, r->out_size, 0, NULL);
    int is = json_is_object(document);
    json_decref(document);
    return is;
}

/* The first law that the end of a command breaks, or NULL. */
static const char *broken_law(const command_words *w, int status, const result *r)
{
    int text_out = w->count > 1 && (strcmp(w->word[1], "tokenize") == 0); /* prints text of the
                                                                           * input */
    if (*told->broken)
        return told->broken;
    if (strstr(r->err, "Sanitizer") || strstr(r->err, "runtime error: "))
        return "a sanitizer";
    if (r->code < 0)
        return WTERMSIG(status) != SIGXCPU && WTERMSIG(status) != SIGALRM ? "died of a signal"
               : !told->parsed || !may_be_long(w)                         ? "took too long"
                                                                          : NULL;
    if (r->code > 4)
        return "a status that the documents do not have";
    if (r->code && !r->out_size && !r->err_size)
        return "failed without a word";
    const char *last = strstr(r->err, "\nsamebit: "), *said = last ? last + 1 : r->err;
    if (r->code > 1 && w->count > 1 && (strncmp(said, "samebit: ", 9) != 0 || strlen(said) < 15))
        return "an error that is not told as one";
    if (!text_out && !text_is_plain(r->out, r->out_size))
        return "stdout steers a terminal";
    if (!text_is_plain(r->err, r->err_size))
        return "stderr steers a terminal";
    if (told->json && !told->helped && r->code < 2 && !is_document(r))
        return "no JSON document";
    if (w->works && r->code > 1)
        return "what was not changed does not work";
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    command_words w;
    json_draws d = {fuzz_key(data, size), 0};
    if (!told)
        start();
    files_empty(inside);
    command_draw(tables, COUNT(tables), &d, &w);
    int status = run(inside, w.count, w.word, may_be_long(&w) ? LONG_CPU : MOST_CPU);
    result r = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
    r.out = printed_to(out_fd, &r.out_size);
    r.err = printed_to(err_fd, &r.err_size);
    fuzz_accepted += told->parsed != 0;
    const char *broken = broken_law(&w, status, &r);
    if (broken || getenv("SAMEBIT_FUZZ_SHOW"))
        show(&w, &r);
    if (broken) {
        fprintf(stderr, "broken law: %s\n", broken);
        abort();
    }
    free(r.out);
    free(r.err);
    command_free(&w);
    return 0;
}
