#include "tools/cli/completion.h"

#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"

/* The parts of a shell's script. */
typedef struct shell {
    const char *name;
    void (*begin)(void);
    void (*write)(const char *command, const sb_command_line *line);
    const char *end;
} shell;

/* Prints text, with `before` in front of each character of `special`. */
static void print_escaped(const char *text, const char *special, const char *before)
{
    for (; *text; text++) {
        if (strchr(special, *text))
            fputs(before, stdout);
        putchar(*text);
    }
}

/* Whether the argument of an option is a file or folder. */
static int is_path(const sb_opt *o)
{
    return o->kind == SB_OPT_INPUT || o->kind == SB_OPT_OUTPUT || o->kind == SB_OPT_REPEATED;
}

/* --- bash ------------------------------------------------------------------------------------- */

static void bash_begin(void)
{
    size_t count;
    const sb_command *commands = sb_commands(&count);
    fputs(
        "# completion of samebit for bash\n"
        "_samebit()\n{\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options values\n"
        "    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
        "        mapfile -t COMPREPLY < <(compgen -W '--help --version",
        stdout);
    for (size_t i = 0; i < count; i++)
        printf(" %s", commands[i].name);
    fputs("' -- \"$word\")\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", stdout);
}

static void bash_write(const char *command, const sb_command_line *line)
{
    printf("    %s)\n        options='--help", command);
    for (size_t i = 0; i < line->opt_count; i++)
        printf(" --%s", line->opts[i].name);
    fputs("'\n        values='", stdout);
    for (size_t i = 0; i < line->opt_count; i++)
        if (line->opts[i].arg && !is_path(&line->opts[i]))
            printf(" --%s", line->opts[i].name);
    puts(" ' ;;");
}

static const char bash_end[] =
    "    *) return ;;\n    esac\n"
    "    case \" $values\" in *\" $before \"*) return ;; esac\n"
    "    if [[ $word == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
    "    else\n"
    "        compopt -o filenames 2> /dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
    "    fi\n}\n"
    "complete -F _samebit samebit\n";

/* --- zsh -------------------------------------------------------------------------------------- */

static void zsh_text(const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
}

static void zsh_begin(void)
{
    size_t count;
    const sb_command *commands = sb_commands(&count);
    puts("#compdef samebit\n_samebit_command() {\n    local -a commands=(");
    for (size_t i = 0; i < count; i++) {
        printf("        '%s:", commands[i].name);
        zsh_text(commands[i].help);
        puts("'");
    }
    puts("    )\n    _describe command commands\n}\n_samebit() {\n"
         "    if (( CURRENT == 2 )); then\n        _samebit_command\n        return\n    fi\n"
         "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in");
}

static void zsh_write(const char *command, const sb_command_line *line)
{
    printf("    %s)\n        _arguments '(-h --help)'{-h,--help}'[the help of the command]'",
           command);
    for (size_t i = 0; i < line->opt_count; i++) {
        const sb_opt *o = &line->opts[i];
        const char *many = o->kind == SB_OPT_REPEATED ? "*" : "";
        if (o->letter)
            printf(" \\\n            %s%s{-%c,--%s}'[", *many ? "'*'" : "", "", o->letter, o->name);
        else
            printf(" \\\n            '%s--%s[", many, o->name);
        zsh_text(o->help);
        putchar(']');
        if (o->arg) {
            putchar(':');
            zsh_text(o->arg);
            fputs(is_path(o) ? ":_files" : ":", stdout);
        }
        putchar('\'');
    }
    puts(" \\\n            '*:operand:_files' ;;");
}

static const char zsh_end[] = "    esac\n}\n_samebit \"$@\"\n";

/* --- fish ------------------------------------------------------------------------------------- */

static void fish_text(const char *text)
{
    putchar('\'');
    print_escaped(text, "\\'", "\\");
    putchar('\'');
}

static void fish_begin(void)
{
    size_t count;
    const sb_command *commands = sb_commands(&count);
    puts("# completion of samebit for fish\n"
         "complete -c samebit -n __fish_use_subcommand -f -l version -d 'name this build'");
    for (size_t i = 0; i < count; i++) {
        printf("complete -c samebit -n __fish_use_subcommand -f -a %s -d ", commands[i].name);
        fish_text(commands[i].help);
        putchar('\n');
    }
}

static void fish_write(const char *command, const sb_command_line *line)
{
    for (size_t i = 0; i < line->opt_count; i++) {
        const sb_opt *o = &line->opts[i];
        printf("complete -c samebit -n '__fish_seen_subcommand_from %s' -l %s", command, o->name);
        if (o->letter)
            printf(" -s %c", o->letter);
        if (o->arg)
            fputs(is_path(o) ? " -r" : " -x", stdout);
        fputs(" -d ", stdout);
        fish_text(o->help);
        putchar('\n');
    }
}

/* --- all -------------------------------------------------------------------------------------- */

static const shell shells[] = {{"bash", bash_begin, bash_write, bash_end},
                               {"zsh", zsh_begin, zsh_write, zsh_end},
                               {"fish", fish_begin, fish_write, ""}};

static const shell *chosen;
static const sb_command *shown;

sb_status sb_completion_begin(const char *name, sb_error *err)
{
    chosen = NULL;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, name) == 0)
            chosen = &shells[i];
    if (!chosen)
        return sb_fail(err, SB_ERR_USAGE, "--completion is '%s', expected bash, zsh or fish",
                       SB_SHOW(name));
    chosen->begin();
    return SB_OK;
}

void sb_completion_of(const sb_command *command)
{
    shown = command;
}

void sb_completion_write(const sb_command_line *line)
{
    chosen->write(shown->name, line);
}

void sb_completion_end(void)
{
    fputs(chosen->end, stdout);
}
