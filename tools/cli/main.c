#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "ref/math/start.h"
#include "tools/cli/cli.h"

static const struct {
    const char *name, *help;
    sb_status (*run)(int argc, char **argv, sb_error *err);
} commands[] = {
#define SB_COMMAND(name, help) {#name, help, sb_cmd_##name},
#include "tools/cli/commands.def"
#undef SB_COMMAND
};

json_t *sb_document(const char *command)
{
    return json_pack("{s:i,s:s}", "spec", SB_SPEC_VERSION, "command", command);
}

sb_status sb_print_document(json_t *document, sb_error *err)
{
    int failed = !document || json_dumpf(document, stdout, JSON_INDENT(2)) != 0 ||
                 putchar('\n') == EOF || fflush(stdout) != 0;
    json_decref(document);
    return failed ? sb_fail(err, SB_ERR_IO, "the document could not be written to stdout") : SB_OK;
}

void sb_set_threads(unsigned threads)
{
#ifdef _OPENMP
    if (threads)
        omp_set_num_threads((int)threads);
#else
    (void)threads;
#endif
}

void sb_progress(void *unused, const char *what, uint64_t done, uint64_t total)
{
    (void)unused;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%s %llu/%llu%s", what, (unsigned long long)done,
                (unsigned long long)total, done >= total ? "\n" : " ");
}

static void print_help(void)
{
    printf(
        "usage: samebit COMMAND [options]\n\n"
        "A deterministic reference of the Qwen3.5 / Qwen3.6 / Qwen3-Next models: the same bits on\n"
        "every machine.\n\ncommands:\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].help);
    printf(
        "\n'samebit COMMAND --help' explains one. SAMEBIT_ISA=auto|exact|scalar|avx2 chooses the\n"
        "instructions, never the result.\n"
        "Exit status: 0 passed, 1 a difference, 2 wrong use, 3 input refused, 4 skipped.\n");
}

int main(int argc, char **argv)
{
    sb_error err = {""};
    sb_status status;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return argc < 2 ? sb_exit_status(SB_ERR_USAGE) : 0;
    }
    status = sb_math_start(NULL, &err);
    for (size_t i = 0; !status; i++) {
        if (i == sizeof commands / sizeof *commands) {
            status = sb_fail(&err, SB_ERR_USAGE, "there is no command '%s'; see 'samebit --help'",
                             argv[1]);
        } else if (strcmp(argv[1], commands[i].name) == 0) {
            status = commands[i].run(argc - 1, argv + 1, &err);
            break;
        }
    }
    if (!status && (fflush(stdout) != 0 || ferror(stdout)))
        status = sb_fail(&err, SB_ERR_IO, "the result could not be written to stdout");
    if (status)
        fprintf(stderr, "samebit: %s\n", err.text);
    return sb_exit_status(status);
}
