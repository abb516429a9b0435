/* test_sweep.c - runs every command of sweep.def many times. Each run ends at another call that
 * changes files, or has another system call, allocation or thread start fail. Afterwards an output
 * is the old one, the new one, absent, or refused under its name. After exit status 0 stdout is
 * complete, and 1 means a difference and nothing else. Without threads, a command has the same
 * effects and the same output.
 *
 * By default, runs a fixed sample of the places; CHECK_ALL=1 runs all of them. Of the allocations
 * with the same chain of callers, it takes the first two and the last two. `test_sweep COMMAND...`
 * sweeps the commands that contain such a text, completely. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#define _XOPEN_SOURCE 700

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ref/base/hash.h"
#include "tests/fault/sweep_calls.h"

/* The main of the program, under a name that a test can call. */
int samebit_main(int argc, char **argv);
#define main samebit_main
#include "tools/cli/main.c"
#undef main

enum { PATH = 512, WORDS = 32, THREADS = 4, OF_A_PATH = 4, MOST_PATHS = 1 << 19 };

typedef struct row {
    int status;
    const char *before, *command, *output, *reader;
} row;

static const row rows[] = {
#define SB_SWEEP(status, before, command, output, reader) {status, before, command, output, reader},
#include "tests/fault/sweep.def"
#undef SB_SWEEP
};

static const char *const ways[] = {"count", "kill", "fail", "starve", "one", "alone", "fewer"};
static char root[PATH], place[PATH]; /* the test's folder, and the folder in it where commands
                                      * run */
static unsigned passed, failed, skipped;
static unsigned long threads; /* the number of threads not started */

/* --- files ------------------------------------------------------------------------------------ */

static int is_temporary(const char *name)
{
    return strstr(name, ".tmp-") != NULL;
}

static int is_passing(const char *name)
{
    const size_t n = strlen(name);
    return is_temporary(name) || strncmp(name, "samebit-bench-", 14) == 0 ||
           strncmp(name, "samebit-fault-", 14) == 0 ||
           (n > 8 && strcmp(name + n - 8, ".partial") == 0);
}

static void remove_all(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return;
    DIR *dir = S_ISDIR(info.st_mode) ? opendir(path) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        char inner[2 * PATH];
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_all(inner);
    }
    if (dir)
        closedir(dir);
    if (remove(path) != 0)
        fprintf(stderr, "%s stays\n", path);
}

static char *read_whole(const char *path, size_t *size)
{
    FILE *in = fopen(path, "rb");
    struct stat info;
    *size = 0;
    if (!in || fstat(fileno(in), &info) != 0)
        return NULL;
    char *text = malloc((size_t)info.st_size + 1);
    if (text) {
        *size = fread(text, 1, (size_t)info.st_size, in);
        text[*size] = '\0';
    }
    fclose(in);
    return text;
}

/* Hashes names and bytes in order of name. Temporary files are skipped, as readers skip them. */
static void digest_into(sb_hash *hash, const char *path, const char *name)
{
    struct stat info;
    struct dirent **list = NULL;
    if (stat(path, &info) != 0 || is_temporary(name))
        return;
    sb_hash_bytes(hash, name, strlen(name) + 1);
    int n = S_ISDIR(info.st_mode) ? scandir(path, &list, NULL, alphasort) : -1;
    for (int i = 0; i < n; i++) {
        char inner[2 * PATH];
        snprintf(inner, sizeof inner, "%s/%s", path, list[i]->d_name);
        if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0)
            digest_into(hash, inner, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    if (n >= 0)
        return;
    size_t size;
    char *text = read_whole(path, &size);
    if (text)
        sb_hash_bytes(hash, text, size);
    free(text);
}

typedef struct tree {
    int there;
    sb_digest digest;
} tree;

static tree tree_of(const char *path)
{
    struct stat info;
    tree t = {lstat(path, &info) == 0, {""}};
    sb_hash *hash = t.there ? sb_hash_new() : NULL;
    if (!hash)
        return t;
    digest_into(hash, path, "");
    t.digest = sb_hash_end(hash);
    sb_hash_free(hash);
    return t;
}

static int same_tree(const tree *a, const tree *b)
{
    return a->there == b->there && (!a->there || strcmp(a->digest.hex, b->digest.hex) == 0);
}

static int has_temporary(const char *path)
{
    DIR *dir = opendir(path);
    int found = 0;
    for (struct dirent *e; dir && !found && (e = readdir(dir)) != NULL;) {
        char inner[2 * PATH];
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        found = is_passing(e->d_name);
        if (!found && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            found = has_temporary(inner);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* --- one run ---------------------------------------------------------------------------------- */

typedef struct ending {
    int status; /* from wait */
    unsigned long calls;
    char call[32]; /* the name of the call that failed */
} ending;

static int words_of(char *text, char **argv)
{
    int argc = 0;
    char *next = NULL;
    argv[argc++] = (char *)(size_t) "samebit";
    for (char *w = strtok_r(text, " ", &next); w && argc < WORDS - 1;
         w = strtok_r(NULL, " ", &next))
        argv[argc++] = w;
    argv[argc] = NULL;
    return argc;
}

/* Runs in the child: stdout and stderr go to files of the root. */
static void become(const char *command, sweep_way way, unsigned long n, int error, int told)
{
    char text[PATH], out[2 * PATH], err[2 * PATH], *argv[WORDS];
    snprintf(text, sizeof text, "%s", command);
    snprintf(out, sizeof out, "%s/stdout", root);
    snprintf(err, sizeof err, "%s/stderr", root);
    if (chdir(place) != 0 || !freopen(out, "wb", stdout) || !freopen(err, "wb", stderr))
        _exit(99);
    int argc = words_of(text, argv);
    sb_set_threads(way < SWEEP_ALONE ? 1 : THREADS);
    sweep_begin(way, n, error);
    int status = samebit_main(argc, argv);
    ending end = {status, sweep_calls(), ""};
    snprintf(end.call, sizeof end.call, "%s", sweep_failed());
    sweep_begin(SWEEP_COUNT, 0, 0);
    fflush(stdout);
    fflush(stderr);
    if (write(told, &end, sizeof end) != (ssize_t)sizeof end)
        _exit(99);
    _exit(status);
}

static ending run(const char *command, sweep_way way, unsigned long n, int error)
{
    ending end = {-1, 0, ""};
    int told[2], status = 0;
    fflush(NULL);
    if (pipe(told) != 0)
        return end;
    pid_t child = fork();
    if (child == 0)
        become(command, way, n, error, told[1]);
    close(told[1]);
    if (read(told[0], &end, sizeof end) < (ssize_t)sizeof end)
        memset(&end, 0, sizeof end);
    close(told[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        status = -1;
    end.status = status;
    return end;
}

static int exit_of(const ending *end)
{
    return WIFEXITED(end->status) ? WEXITSTATUS(end->status) : -1;
}

static char *printed(const char *name)
{
    char path[2 * PATH];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", root, name);
    return read_whole(path, &size);
}

/* --- one command ------------------------------------------------------------------------------ */

typedef struct expected {
    const row *row;
    char output[2 * PATH];
    tree old, new;
    int exit;
    char *text; /* stdout */
} expected;

/* Restores the folder as the command expects it. Most runs that fail leave it unchanged. */
static void fresh(const row *r)
{
    static const row *of;
    static tree as;
    tree is = tree_of(place);
    if (of == r && same_tree(&is, &as) && !has_temporary(place))
        return;
    remove_all(place);
    ending end = {0};
    if (mkdir(place, 0777) == 0 && *r->before)
        end = run(r->before, SWEEP_COUNT, 0, 0);
    if (exit_of(&end) < 0 || exit_of(&end) > 1)
        fprintf(stderr, "%s fails\n", r->before);
    of = r;
    as = tree_of(place);
}

/* Whether the output at a path is the old one, the new one, absent, or refused by its reader. */
static int sound(const expected *x, const char *suffix)
{
    char path[3 * PATH], reader[PATH];
    snprintf(path, sizeof path, "%s%s", x->output, suffix);
    tree is = tree_of(path);
    if (!is.there || same_tree(&is, &x->old) || same_tree(&is, &x->new))
        return 1;
    if (!*x->row->reader)
        return *suffix != '\0'; /* its name marks it as incomplete */
    const char *at = strstr(x->row->reader, x->row->output);
    snprintf(reader, sizeof reader, "%.*s%s%s%s", (int)(at - x->row->reader), x->row->reader,
             x->row->output, suffix, at + strlen(x->row->output));
    ending end = run(reader, SWEEP_COUNT, 0, 0);
    return exit_of(&end) > 0;
}

static void report(const expected *x, sweep_way way, unsigned long n, const char *call,
                   const char *what)
{
    char *err = printed("stderr");
    failed++;
    printf("FAILED %s at %lu (%s): %s\n  samebit %s\n  stderr: %.200s\n", ways[way], n, call, what,
           x->row->command, err ? err : "");
    free(err);
}

/* Whether remains are excusable, because the failing call is the one that would have removed
 * them. */
static int may_leave(sweep_way way, const char *call)
{
    static const char *const calls[] = {"unlink", "rmdir", "opendir", "readdir", "lstat"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(call, calls[i]) == 0)
            return 1;
    return way == SWEEP_STARVE || way == SWEEP_ONE;
}

static const char *wrong(const expected *x, sweep_way way, const ending *end)
{
    int code = exit_of(end);
    if (code == 1 && way == SWEEP_FAIL && strncmp(x->row->command, "check ", 6) == 0)
        return NULL; /* an unreadable file is a finding */
    if (*x->row->output)
        for (int i = 0; i < 3; i++) {
            static const char *const suffixes[] = {"", ".partial", ".replaced"};
            if (!sound(x, suffixes[i]))
                return i ? "a folder that is left reads as whole" : "an output is neither";
        }
    if (way == SWEEP_KILL)
        return WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGKILL ? NULL : "not killed";
    tree is = tree_of(x->output);
    if (code < 0)
        return "ended by a signal";
    if (code == x->exit && *x->row->output && !same_tree(&is, &x->new))
        return "ends well without its output";
    if (code != x->exit && (way >= SWEEP_ALONE || (code != 2 && code != 3)))
        return "an exit status that says something else";
    if (!may_leave(way, end->call) && has_temporary(place))
        return "a temporary file is left";
    return NULL;
}

/* Skips to the next character that both texts must share: the times printed by `bench cpu`
 * differ. */
static const char *past(const char *text, const expected *x)
{
    return strncmp(x->row->command, "bench cpu ", 10) == 0 ? text + strspn(text, "0123456789.+-e")
                                                           : text;
}

static int same_text(const expected *x, const char *a)
{
    const char *b = past(x->text, x);
    for (a = past(a, x); *a && *a == *b; a = past(a + 1, x))
        b = past(b + 1, x);
    return *a == *b;
}

/* A graft reports that a file was not linked if links are not possible. */
static const char *wrong_text(const expected *x, const ending *end)
{
    char *out = printed("stdout"), *err = printed("stderr");
    const char *what = NULL;
    if (!out || !err)
        what = "no stdout";
    else if (exit_of(end) == x->exit && !same_text(x, out) && strcmp(end->call, "link") != 0)
        what = "another stdout";
    else if (exit_of(end) != x->exit && !strstr(err, "samebit: "))
        what = "no word about it";
    free(out);
    free(err);
    return what;
}

static void one(const expected *x, sweep_way way, unsigned long n)
{
    static const int errors[] = {EIO, ENOSPC, EACCES};
    fresh(x->row);
    ending end = run(x->row->command, way, n, errors[n % 3]);
    const char *what = way == SWEEP_KILL ? NULL : wrong_text(x, &end);
    if (what || (what = wrong(x, way, &end)) != NULL)
        report(x, way, n, end.call, what);
    else
        passed++;
}

/* Whether the n-th allocation is among the first or the last ones with its chain of callers.
 * Building a JSON document takes some ten thousand allocations with few different chains. */
static int is_chosen(const uint64_t *paths, unsigned long count, unsigned long n)
{
    unsigned long before = 0, behind = 0;
    for (unsigned long i = 0; i < n && before < OF_A_PATH / 2; i++)
        before += paths[i] == paths[n];
    for (unsigned long i = n + 1; i < count && behind < OF_A_PATH / 2; i++)
        behind += paths[i] == paths[n];
    return before < OF_A_PATH / 2 || behind < OF_A_PATH / 2;
}

/* Sweeps every place, or `most` of them, evenly spread; returns how many. */
static unsigned long sweep(const expected *x, sweep_way way, unsigned long most)
{
    static uint64_t *paths;
    const int by_path = !most && (way == SWEEP_STARVE || way == SWEEP_ONE);
    if (!paths) /* shared by all processes */
        paths = mmap(NULL, MOST_PATHS * sizeof *paths, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (paths == MAP_FAILED)
        exit(2);
    fresh(x->row);
    sweep_paths(by_path ? paths : NULL, MOST_PATHS);
    ending end = run(x->row->command, way, 0, 0);
    sweep_paths(NULL, 0);
    unsigned long count = end.calls, places = most && most < count ? most : count, done = 0;
    for (unsigned long i = 0; i < places; i++)
        if (!by_path || count > MOST_PATHS || is_chosen(paths, count, i)) {
            one(x, way, 1 + (places == count ? i : (i * count + count / 2) / places));
            done++;
        }
    threads += way >= SWEEP_ALONE ? places : 0;
    return done;
}

static void command(const row *r, unsigned long most)
{
    expected x = {.row = r};
    snprintf(x.output, sizeof x.output, "%s/%s", place, r->output);
    fresh(r);
    x.old = tree_of(*r->output ? x.output : "");
    ending end = run(r->command, SWEEP_COUNT, 0, 0);
    x.exit = exit_of(&end);
    x.new = tree_of(*r->output ? x.output : "");
    x.text = printed("stdout");
    if (x.exit != r->status || !x.text || (*r->output && !x.new.there)) {
        report(&x, SWEEP_COUNT, 0, "", "does not run");
    } else {
        const time_t begin = time(NULL);
        unsigned long places[SWEEP_WAYS] = {0};
        for (int way = *r->output ? SWEEP_KILL : SWEEP_FAIL; way < SWEEP_WAYS; way++)
            places[way] = sweep(&x, (sweep_way)way, most);
        if (!most)
            printf("%s: %lu kills, %lu calls, %lu allocations, %lu threads, %.0f s\n", r->command,
                   places[SWEEP_KILL], places[SWEEP_FAIL], places[SWEEP_ONE], places[SWEEP_FEWER],
                   difftime(time(NULL), begin));
    }
    free(x.text);
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Makes an input of the stdout of a command of inputs(). */
static void keep_stdout(const char *name)
{
    char from[2 * PATH], to[2 * PATH];
    snprintf(from, sizeof from, "%s/stdout", root);
    snprintf(to, sizeof to, "%s/%s", place, name);
    if (rename(from, to) != 0)
        printf("%s is not there\n", name);
}

/* The output of a kernel: a copy of the given file, or of each file of the folder, with one tensor
 * under the name of an output. */
static void write_output(const char *from, const char *to, const char *tensor)
{
    struct dirent **list = NULL;
    const size_t length = strlen(tensor);
    size_t size;
    int n = mkdir(to, 0777) == 0 ? scandir(from, &list, NULL, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        char inner[2 * PATH], copy[2 * PATH];
        snprintf(inner, sizeof inner, "%s/%s", from, list[i]->d_name);
        snprintf(copy, sizeof copy, "%s/%s", to, list[i]->d_name);
        if (list[i]->d_name[0] != '.')
            write_output(inner, copy, tensor);
        free(list[i]);
    }
    free(list);
    char *bytes = n < 0 && rmdir(to) == 0 ? read_whole(from, &size) : NULL;
    for (size_t i = 8; bytes && i + length < size; i++)
        if (memcmp(bytes + i, tensor, length) == 0) {
            memcpy(bytes + i, "\"out\"     ", length);
            break;
        }
    FILE *out = bytes ? fopen(to, "wb") : NULL;
    if (bytes && (!out || fwrite(bytes, 1, size, out) != size || fclose(out) != 0))
        printf("%s cannot be written\n", to);
    free(bytes);
}

/* Copies from the folder of inputs to another. */
static void write_in(const char *from, const char *to, const char *tensor)
{
    char whole[2][2 * PATH];
    snprintf(whole[0], sizeof whole[0], "%s/%s", place, from);
    snprintf(whole[1], sizeof whole[1], "%s/%s", place, to);
    write_output(whole[0], whole[1], tensor);
}

static void inputs(void)
{
    static const struct {
        int status;
        const char *command, *stdout_to;
    } made[] = {
        {0, "make bf --preset T4 --layers 1 --tokenizer", NULL},
        {0, "make q --preset T4 --layers 1 --format nvfp4-ct", NULL},
        {0, "make other --preset T4 --layers 1 --seed 7", NULL},
        {0, "run bf --tokens 1,2 -n 1 --trace tr", NULL},
        {0, "state save bf --tokens 1,2 -o st", NULL},
        {0, "golden write gd bf --tokens 1,2 -n 1", NULL},
        {0, "hash bf", "manifest"},
        {0, "vectors rmsnorm --shape rows=2,n=7 -o v", NULL},
        {1,
         "diff bf --engine sim:sequential+last_column_lost --forced --tokens 1,2 -n 1 --bundle "
         "bundle",
         NULL},
        {0, "judge v got --json", "judged"},
        {0, "vectors rmsnorm --shape rows=2,n=7 --metamorphic -o batches", NULL},
        {0, "vectors rmsnorm --shape rows=1,n=6 --regime all -o cases/", NULL},
        {0, "vectors rmsnorm --shape rows=1,n=7 --regime all -o cases/", NULL},
    };
    char path[2 * PATH];
    snprintf(place, sizeof place, "%.400s/in", root);
    if (mkdir(place, 0777) != 0)
        return;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        ending end = run(made[i].command, SWEEP_COUNT, 0, 0);
        if (exit_of(&end) != made[i].status) {
            failed++;
            printf("FAILED %s\n", made[i].command);
        }
        if (made[i].stdout_to)
            keep_stdout(made[i].stdout_to);
        if (strstr(made[i].command, "n=7 --regime all -o cases/")) {
            write_in("cases", "done", "\"exact\"");
            ending judged = run("judge cases done", SWEEP_COUNT, 0, 0);
            failed += exit_of(&judged) != 0; /* a reader that refuses everything would find
                                              * nothing */
        } else if (strstr(made[i].command, " -o v")) {
            write_in("v", "got", "\"exact\"");
            write_in("v", "wrong", "\"bound\"");
        } else if (strstr(made[i].command, " -o batches")) {
            write_in("batches", "gave", "\"in.x\"");
        }
    }
    snprintf(path, sizeof path, "%s/ids", place);
    FILE *ids = fopen(path, "wb");
    if (ids && fputs("1,2,3,4,5,6,7,8\n", ids) >= 0)
        fclose(ids);
    snprintf(place, sizeof place, "%.400s/run", root);
}

/* Checks that every command has a row. */
static void all_have_rows(void)
{
    size_t count;
    const sb_command *commands = sb_commands(&count);
    for (size_t c = 0; c < count; c++) {
        const size_t n = strlen(commands[c].name);
        size_t i = 0;
        while (i < sizeof rows / sizeof *rows &&
               (strncmp(rows[i].command, commands[c].name, n) != 0 || rows[i].command[n] != ' '))
            i++;
        passed += i < sizeof rows / sizeof *rows;
        if (i == sizeof rows / sizeof *rows) {
            failed++;
            printf("FAILED sweep.def has no row of samebit %s\n", commands[c].name);
        }
    }
}

static int chosen(const row *r, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(r->command, argv[i]))
            return 1;
    return argc < 2;
}

int main(int argc, char **argv)
{
    const char *all = getenv("CHECK_ALL"), *tmp = getenv("TMPDIR");
    const unsigned long most = argc > 1 || (all && strcmp(all, "1") == 0) ? 0 : 5;
    char in[2 * PATH];
    snprintf(root, sizeof root, "%.300s/samebit-sweep-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(root))
        return 2;
    if (setenv("TMPDIR", ".", 1) != 0) /* so that the command's own temporary files are in a folder
                                        * that is checked */
        return 2;
    all_have_rows();
    inputs();
    snprintf(in, sizeof in, "%s/in", root);
    const tree before = tree_of(in);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (chosen(&rows[i], argc, argv))
            command(&rows[i], most);
    const tree behind = tree_of(in);
    if (!same_tree(&before, &behind)) {
        failed++;
        printf("FAILED a command has changed its inputs\n");
    }
    if (argc < 2 && threads == 0) {
        failed++;
        printf("FAILED no command starts a thread\n");
    }
    remove_all(root);
    printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
    return failed != 0;
}
