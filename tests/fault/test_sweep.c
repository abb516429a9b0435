/* test_sweep.c - every command of sweep.def is ended at every call that changes files, and has
 * every call of the system and every allocation of it fail, one at a time. What an output is then:
 * the old one, the new one, not there, or refused by name. An exit status of 0 has the whole
 * stdout, and 1 means a difference and nothing else.
 *
 * A fixed sample of the places, all of them with CHECK_ALL=1. `test_sweep COMMAND...` sweeps the
 * commands that have such a text, whole. */
#define _XOPEN_SOURCE 700

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ref/base/hash.h"
#include "tests/fault/sweep_calls.h"

/* The program's own main, under a name that a test can call. */
int samebit_main(int argc, char **argv);
#define main samebit_main
#include "tools/cli/main.c"
#undef main

enum { PATH = 512, WORDS = 32 };

typedef struct row {
    const char *before, *command, *output, *reader;
} row;

static const row rows[] = {
#define SB_SWEEP(before, command, output, reader) {before, command, output, reader},
#include "tests/fault/sweep.def"
#undef SB_SWEEP
};

static const char *const ways[] = {"count", "kill", "fail", "starve", "one"};
static char root[PATH], place[PATH]; /* all of it, and the folder that commands run in */
static unsigned passed, failed, skipped;

/* --- files
 * ---------------------------------------------------------------------------------------- */

static int is_temporary(const char *name)
{
    return strstr(name, ".tmp-") != NULL;
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

/* Names and bytes, in order of name; temporary files are nothing that a reader looks at. */
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
        size_t n = strlen(e->d_name);
        found = is_temporary(e->d_name) || (n > 8 && strcmp(e->d_name + n - 8, ".partial") == 0);
        if (!found && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            found = has_temporary(inner);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* --- one run
 * -------------------------------------------------------------------------------------- */

typedef struct ending {
    int status; /* of wait */
    unsigned long calls;
    char call[32]; /* that failed */
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

/* In the child: stdout and stderr are files of the root. */
static void become(const char *command, sweep_way way, unsigned long n, int error, int told)
{
    char text[PATH], out[2 * PATH], err[2 * PATH], *argv[WORDS];
    snprintf(text, sizeof text, "%s", command);
    snprintf(out, sizeof out, "%s/stdout", root);
    snprintf(err, sizeof err, "%s/stderr", root);
    if (chdir(place) != 0 || !freopen(out, "wb", stdout) || !freopen(err, "wb", stderr))
        _exit(99);
    int argc = words_of(text, argv);
    sb_set_threads(1);
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

/* --- one command
 * ---------------------------------------------------------------------------------- */

typedef struct expected {
    const row *row;
    char output[2 * PATH];
    tree old, new;
    int exit;
    char *text; /* stdout */
} expected;

static void fresh(const row *r)
{
    remove_all(place);
    if (mkdir(place, 0777) != 0 ||
        (*r->before && exit_of(&(ending){run(r->before, SWEEP_COUNT, 0, 0).status, 0, ""})))
        fprintf(stderr, "%s fails\n", r->before);
}

/* Whether what stands at a path is the old, the new, nothing, or refused. */
static int sound(const expected *x, const char *suffix)
{
    char path[3 * PATH], reader[PATH];
    snprintf(path, sizeof path, "%s%s", x->output, suffix);
    tree is = tree_of(path);
    if (!is.there || same_tree(&is, &x->old) || same_tree(&is, &x->new))
        return 1;
    if (!*x->row->reader)
        return 0;
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

/* Whether what is left is the fault of the call that failed. */
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
        return NULL; /* a file that cannot be read is a finding */
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
    if (code != x->exit && code != 2 && code != 3)
        return "an exit status that says something else";
    if (!may_leave(way, end->call) && has_temporary(place))
        return "a temporary file is left";
    return NULL;
}

/* A graft says that a file was not linked where links are not to be had. */
static const char *wrong_text(const expected *x, const ending *end)
{
    char *out = printed("stdout"), *err = printed("stderr");
    const char *what = NULL;
    if (!out || !err)
        what = "no stdout";
    else if (exit_of(end) == x->exit && strcmp(out, x->text) != 0 && strcmp(end->call, "link") != 0)
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

/* Every place, or so many of them, evenly. */
static void sweep(const expected *x, sweep_way way, unsigned long most)
{
    fresh(x->row);
    ending end = run(x->row->command, way, 0, 0);
    unsigned long count = end.calls, places = most && most < count ? most : count;
    for (unsigned long i = 0; i < places; i++)
        one(x, way, 1 + (places == count ? i : (i * count + count / 2) / places));
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
    if (x.exit != 0 || !x.text || (*r->output && !x.new.there)) {
        report(&x, SWEEP_COUNT, 0, "", "does not run");
    } else {
        if (*r->output)
            sweep(&x, SWEEP_KILL, most);
        for (int way = SWEEP_FAIL; way < SWEEP_WAYS; way++)
            sweep(&x, (sweep_way)way, most);
    }
    free(x.text);
}

/* --- all of them
 * ---------------------------------------------------------------------------------- */

static void inputs(void)
{
    static const char *const made[] = {
        "make bf --preset T4 --layers 1 --tokenizer",
        "make q --preset T4 --layers 1 --format nvfp4-ct",
        "make other --preset T4 --layers 1 --seed 7",
        "run bf --tokens 1,2 -n 1 --trace tr",
        "state save bf --tokens 1,2 -o st",
        "golden write gd bf --tokens 1,2 -n 1",
        "vectors rmsnorm -o v",
    };
    char path[2 * PATH];
    snprintf(place, sizeof place, "%.400s/in", root);
    if (mkdir(place, 0777) != 0)
        return;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        ending end = run(made[i], SWEEP_COUNT, 0, 0);
        if (exit_of(&end) != 0)
            printf("%s fails\n", made[i]);
    }
    snprintf(path, sizeof path, "%s/ids", place);
    FILE *ids = fopen(path, "wb");
    if (ids && fputs("1,2,3,4,5,6,7,8\n", ids) >= 0)
        fclose(ids);
    snprintf(place, sizeof place, "%.400s/run", root);
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
    snprintf(root, sizeof root, "%.300s/samebit-sweep-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(root))
        return 2;
    inputs();
    tree before = tree_of(root);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (chosen(&rows[i], argc, argv))
            command(&rows[i], most);
    remove_all(place);
    (void)before;
    remove_all(root);
    printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
    return failed != 0;
}
