#include "tools/cli/opts.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"

enum { MAX_OPTS = 64, FIRST_LONG = 256 }; /* a bit of `given` for each */

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

/* Past digits; their number, and whether one of them is not 0. */
static size_t skip_digits(const char **at, int *nonzero)
{
    size_t n = strspn(*at, "0123456789");
    if (strspn(*at, "0") < n)
        *nonzero = 1;
    *at += n;
    return n;
}

/* The grammar is checked here, so that strtof, which rounds to nearest, sees nothing that it would
 * read in a way of its own: blanks, signs, hexadecimal, names. The program never sets a locale. */
int sb_parse_f32(const char *text, float *value)
{
    const char *at = text;
    int nonzero = 0, ignored = 0;
    size_t digits = skip_digits(&at, &nonzero);
    if (*at == '.') {
        at++;
        digits += skip_digits(&at, &nonzero);
    }
    if (digits && (*at == 'e' || *at == 'E')) {
        at++;
        at += *at == '+' || *at == '-';
        if (!skip_digits(&at, &ignored))
            return 0;
    }
    if (!digits || *at)
        return 0;
    float v = strtof(text, NULL);
    if (!sb_is_finite_f32(v) || (v == 0 && nonzero))
        return 0;
    *value = v;
    return 1;
}

sb_f32_text sb_print_f32(float value)
{
    sb_f32_text out;
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(out.text, sizeof out.text, "%.*g", digits, (double)value);
        if (strtof(out.text, NULL) == value)
            break;
    }
    return out;
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
    case SB_OPT_REAL:
        if (sb_parse_f32(arg, o->value))
            return SB_OK;
        return sb_fail(
            err, SB_ERR_USAGE,
            "--%s is '%s'; expected a decimal number, such as 0.7, that binary32 can hold", o->name,
            arg);
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

/* The index of the option that getopt_long found. */
static size_t find(const sb_command_line *line, int code)
{
    size_t i = 0;
    if (code >= FIRST_LONG)
        return (size_t)(code - FIRST_LONG);
    while (line->opts[i].letter != code)
        i++;
    return i;
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
    if (line->opt_count > MAX_OPTS)
        return sb_fail(err, SB_ERR_USAGE, "%s has more options than there is room for", argv[0]);
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
        size_t i = find(line, code);
        line->given |= (uint64_t)1 << i;
        sb_status status = take(&line->opts[i], optarg, err);
        if (status)
            return status;
    }
}
