#include "tools/cli/commands.h"

#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/cli/cli.h"
#include "tools/cli/closest.h"

static const sb_command commands[] = {
#define SB_COMMAND(name, help) {#name, help, sb_cmd_##name},
#include "tools/cli/commands.def"
#undef SB_COMMAND
};
enum { COMMANDS = sizeof commands / sizeof *commands };

const sb_command *sb_commands(size_t *count)
{
    *count = COMMANDS;
    return commands;
}

sb_status sb_command_find(const char *name, const sb_command **out, sb_error *err)
{
    sb_closest closest = {.word = name};
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            *out = &commands[i];
            return SB_OK;
        }
        sb_closest_try(&closest, commands[i].name);
    }
    return sb_fail(err, SB_ERR_USAGE, "there is no command '%s'%s%s; see 'samebit --help'",
                   SB_SHOW(name), closest.name ? ", but there is " : "",
                   closest.name ? closest.name : "");
}

void sb_print_commands(void)
{
    printf(
        "usage: samebit COMMAND [options]\n"
        "\n"
        "A deterministic reference implementation of the Qwen3.5 / Qwen3.6 / Qwen3-Next models:\n"
        "the same bits on every machine.\n"
        "\n"
        "commands:\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].help);
    printf("\n"
           "'samebit COMMAND --help' explains a command, 'samebit --version' names this build.\n"
           "SAMEBIT_ISA=auto|exact|scalar|avx2|avx512|avx512vnni|neon chooses the instructions,\n"
           "never the result.\n"
           "Output files: links are followed, devices and pipes are written directly, and a file\n"
           "that the same command reads is refused.\n"
           "Exit status: 0 passed, 1 a difference, 2 wrong use, 3 input refused, 4 skipped.\n");
}
