/* cmd_help.c - samebit help: what the tables of options say, for readers and for shells. */
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/cli/cli.h"
#include "tools/cli/commands.h"
#include "tools/cli/completion.h"
#include "tools/cli/manual.h"
#include "tools/cli/opts.h"

/* Shows a command to `writer`, as `samebit COMMAND --help` does. */
static sb_status show(const sb_command *command, sb_help_writer writer, sb_error *err)
{
    char name[32], help[] = "--help", *argv[] = {name, help, NULL};
    snprintf(name, sizeof name, "%s", command->name);
    sb_help_write_with(writer);
    sb_status status = command->run(2, argv, err);
    sb_help_write_with(NULL);
    return status;
}

static sb_status print_manual(const char *name, sb_error *err)
{
    const sb_command *command;
    if (!name) {
        sb_manual_of_all();
        return SB_OK;
    }
    sb_status status = sb_command_find(name, &command, err);
    if (status)
        return status;
    sb_manual_begin(command);
    status = show(command, sb_manual_write, err);
    sb_manual_end();
    return status;
}

static sb_status print_completion(const char *shell, sb_error *err)
{
    size_t count;
    const sb_command *commands = sb_commands(&count);
    sb_status status = sb_completion_begin(shell, err);
    for (size_t i = 0; i < count && !status; i++) {
        sb_completion_of(&commands[i]);
        status = show(&commands[i], sb_completion_write, err);
    }
    if (!status)
        sb_completion_end();
    return status;
}

sb_status sb_cmd_help(int argc, char **argv, sb_error *err)
{
    int man = 0;
    const char *shell = NULL;
    const sb_opt opts[] = {
        {"man", 0, SB_OPT_FLAG, &man, NULL, "print a man page: of COMMAND, or of samebit itself"},
        {"completion", 0, SB_OPT_STRING, &shell, "SHELL",
         "print the completion of commands and options for bash, zsh or fish"},
    };
    sb_command_line line = {
        .usage = "help [COMMAND] [--man] | help --completion SHELL",
        .about =
            "Explains a command, or lists all commands. `make install` puts the man pages and the\n"
            "completions where man and the shells find them.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .more = "examples:\n"
                "  samebit help run\n"
                "  samebit help run --man | man -l -\n"
                "  source <(samebit help --completion bash)\n",
        .max_operands = 1,
        .names = 1};
    const sb_command *command;
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (shell && (man || line.operands))
        return sb_fail(err, SB_ERR_USAGE, "--completion covers all commands: expected no %s",
                       man ? "--man" : "COMMAND");
    if (shell)
        return print_completion(shell, err);
    if (man)
        return print_manual(line.operand[0], err);
    if (!line.operands) {
        sb_print_commands();
        return SB_OK;
    }
    status = sb_command_find(line.operand[0], &command, err);
    return status ? status : show(command, NULL, err);
}
