#include "tools/cli/manual.h"

#include <stdio.h>
#include <string.h>

#include "ref/samebit.h"

/* Characters that roff would read as commands, or print as others. */
static void print_escaped(const char *text, size_t length)
{
    if (length && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", stdout);
    for (size_t i = 0; i < length; i++)
        switch (text[i]) {
        case '\\':
            fputs("\\e", stdout);
            break;
        case '-':
            fputs("\\-", stdout);
            break;
        case '\'':
            fputs("\\(aq", stdout);
            break;
        case '`':
            fputs("\\(ga", stdout);
            break;
        case '^':
            fputs("\\(ha", stdout);
            break;
        case '~':
            fputs("\\(ti", stdout);
            break;
        default:
            putchar(text[i]);
        }
}

static void print_word(const char *text)
{
    print_escaped(text, strlen(text));
}

/* Lines that begin with a blank keep their breaks; others are one paragraph. */
static void print_text(const char *text)
{
    int kept = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length == 0) {
            puts(kept ? "" : ".PP");
        } else {
            int keep = text[0] == ' ';
            if (keep != kept)
                puts(keep ? ".nf" : ".fi");
            kept = keep;
            print_escaped(text, length);
            putchar('\n');
        }
        text += length + (text[length] == '\n');
    }
    if (kept)
        puts(".fi");
}

static void print_kept(const char *text)
{
    puts(".nf");
    while (*text) {
        size_t length = strcspn(text, "\n");
        print_escaped(text, length);
        putchar('\n');
        text += length + (text[length] == '\n');
    }
    puts(".fi");
}

/* The title of a page; name is NULL for samebit itself. */
static void print_title(const char *name, const char *help)
{
    printf(".TH SAMEBIT%s", name ? "\\-" : "");
    for (; name && *name; name++)
        putchar(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
    printf(" 1 \"\" \"samebit %s\" \"samebit manual\"\n", SAMEBIT_VERSION);
    printf(".SH NAME\n%s", help);
}

static void print_statuses(void)
{
    static const char *const meanings[] = {"passed", "a difference", "wrong use", "input refused",
                                           "skipped"};
    puts(".SH EXIT STATUS");
    for (int i = 0; i < (int)(sizeof meanings / sizeof *meanings); i++)
        printf(".TP\n.B %d\n%s\n", i, meanings[i]);
}

void sb_manual_begin(const sb_command *command)
{
    print_title(command->name, "samebit\\-");
    print_word(command->name);
    fputs(" \\- ", stdout);
    print_word(command->help);
    putchar('\n');
}

static void print_option(const sb_opt *o)
{
    puts(".TP");
    fputs(".B \"", stdout);
    if (o->letter)
        printf("\\-%c, ", o->letter);
    fputs("\\-\\-", stdout);
    print_word(o->name);
    if (o->arg) {
        fputs(" \\fI", stdout);
        print_word(o->arg);
    }
    puts("\"");
    print_word(o->help);
    putchar('\n');
}

void sb_manual_write(const sb_command_line *line)
{
    puts(".SH SYNOPSIS\n.nf");
    fputs("samebit ", stdout);
    print_word(line->usage);
    puts("\n.fi\n.SH DESCRIPTION");
    print_text(line->about);
    puts(".SH OPTIONS");
    for (size_t i = 0; i < line->opt_count; i++)
        print_option(&line->opts[i]);
    puts(".TP\n"
         ".B \"\\-h, \\-\\-help\"\n"
         "print the text of this page");
    if (line->more) {
        puts(".SH NOTES");
        print_kept(line->more);
    }
}

void sb_manual_end(void)
{
    print_statuses();
    puts(".SH SEE ALSO\n.BR samebit (1)");
}

void sb_manual_of_all(void)
{
    size_t count;
    const sb_command *commands = sb_commands(&count);
    print_title(NULL, "samebit \\- a deterministic reference and test oracle for Qwen3.5 models\n");
    puts(".SH SYNOPSIS\n"
         ".B samebit\n"
         ".I COMMAND\n"
         "[options]\n"
         ".SH DESCRIPTION\n"
         "A deterministic reference implementation of the Qwen3.5 / Qwen3.6 / Qwen3\\-Next models: "
         "the same bits on\n"
         "every machine.\n"
         ".SH COMMANDS");
    for (size_t i = 0; i < count; i++) {
        printf(".TP\n.BR samebit\\-");
        print_word(commands[i].name);
        puts(" (1)");
        print_word(commands[i].help);
        putchar('\n');
    }
    puts(
        ".SH ENVIRONMENT\n"
        ".TP\n"
        ".B SAMEBIT_ISA\n"
        "auto, exact, scalar, avx2, avx512, avx512vnni or neon: selects the instructions, never the result.\n"
        ".TP\n"
        ".B SAMEBIT_THREADS\n"
        "the number of threads.");
    print_statuses();
}
