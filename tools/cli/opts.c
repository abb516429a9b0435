#include "tools/cli/opts.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OPTS = 32, FIRST_LONG = 256 };

int sb_parse_u64(const char *text, uint64_t *value)
{
    uint64_t v = 0;
    if (!*text)
        return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return 0;
        unsigned digit = (unsigned)(*text - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return 0;
        v = v * 10 + digit;
    }
    *value = v;
    return 1;
}

static void print_help(const sb_command_line *line)
{
    printf("usage: samebit %s\n\n%s\n", line->usage, line->about);
    if (line->opt_count)
        printf("\noptions:\n");
    for (size_t i = 0; i < line->opt_count; i++) {
        const sb_opt *o = &line->opts[i];
        char head[64], letter[8] = "    ";
        if (o->letter)
            snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(head, sizeof head, "%s--%s%s%s", letter, o->name, o->arg ? " " : "",
                 o->arg ? o->arg : "");
        printf("  %-26s %s\n", head, o->help);
    }
    printf("  %-26s %s\n", "-h, --help", "this text");
    if (line->more)
        printf("\n%s", line->more);
}

static sb_status take(const sb_opt *o, const char *arg, sb_error *err)
{
    sb_repeated *list = o->value;
    switch (o->kind) {
    case SB_OPT_FLAG:
        *(int *)o->value = 1;
        return SB_OK;
    case SB_OPT_STRING:
        *(const char **)o->value = arg;
        return SB_OK;
    case SB_OPT_NUMBER:
        if (sb_parse_u64(arg, o->value))
            return SB_OK;
        return sb_fail(err, SB_ERR_USAGE, "--%s is '%s'; expected a decimal number", o->name, arg);
    case SB_OPT_REPEATED:
        if (list->count == SB_MAX_REPEATS)
            return sb_fail(err, SB_ERR_USAGE, "--%s stands more than %d times", o->name,
                           SB_MAX_REPEATS);
        list->item[list->count++] = arg;
        return SB_OK;
    }
    return SB_OK;
}

/* The tables that getopt_long wants, made from ours. */
static void make_tables(const sb_command_line *line, struct option *longs, char *letters)
{
    *letters++ = ':'; /* a missing argument is told apart from an unknown option */
    *letters++ = 'h';
    for (size_t i = 0; i < line->opt_count; i++) {
        const sb_opt *o = &line->opts[i];
        longs[i] = (struct option){o->name, o->arg ? required_argument : no_argument, NULL,
                                   FIRST_LONG + (int)i};
        if (o->letter) {
            *letters++ = o->letter;
            if (o->arg)
                *letters++ = ':';
        }
    }
    *letters = '\0';
    longs[line->opt_count] = (struct option){"help", no_argument, NULL, 'h'};
    longs[line->opt_count + 1] = (struct option){NULL, 0, NULL, 0};
}

static const sb_opt *find(const sb_command_line *line, int code)
{
    if (code >= FIRST_LONG)
        return &line->opts[code - FIRST_LONG];
    for (size_t i = 0; i < line->opt_count; i++)
        if (line->opts[i].letter == code)
            return &line->opts[i];
    return NULL;
}

static sb_status take_operands(sb_command_line *line, int argc, char **argv, sb_error *err)
{
    unsigned found = (unsigned)(argc - optind);
    if (found < line->min_operands || found > line->max_operands)
        return sb_fail(err, SB_ERR_USAGE, "found %u operands; usage: samebit %s", found,
                       line->usage);
    for (line->operands = 0; line->operands < found; line->operands++)
        line->operand[line->operands] = argv[optind + (int)line->operands];
    return SB_OK;
}

/* getopt moves operands behind options, so only optopt and the argument just read name the culprit.
 */
static sb_status refuse(char **argv, int code, sb_error *err)
{
    const char letter[] = {'-', (char)optopt, '\0'};
    const char *name = optopt > 0 && optopt < FIRST_LONG ? letter : argv[optind - 1];
    if (code == ':')
        return sb_fail(err, SB_ERR_USAGE, "option '%s' needs an argument; see 'samebit %s --help'",
                       name, argv[0]);
    return sb_fail(err, SB_ERR_USAGE, "there is no option '%s'; see 'samebit %s --help'", name,
                   argv[0]);
}

sb_status sb_parse(sb_command_line *line, int argc, char **argv, sb_error *err)
{
    struct option longs[MAX_OPTS + 2];
    char letters[3 * MAX_OPTS + 3];
    make_tables(line, longs, letters);
    optind = 1;
    opterr = 0;
    for (;;) {
        int code = getopt_long(argc, argv, letters, longs, NULL);
        if (code == -1)
            return take_operands(line, argc, argv, err);
        if (code == 'h') {
            print_help(line);
            line->helped = 1;
            return SB_OK;
        }
        if (code == ':' || code == '?')
            return refuse(argv, code, err);
        sb_status status = take(find(line, code), optarg, err);
        if (status)
            return status;
    }
}
