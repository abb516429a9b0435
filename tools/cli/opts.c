#include "tools/cli/opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "tools/cli/closest.h"
#include "tools/cli/outputs.h"

enum { MAX_OPTS = 64 }; /* one bit of `given` per option */

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

/* Skips digits; returns their number, and in *nonzero whether one is not 0. */
static size_t skip_digits(const char **at, int *nonzero)
{
    size_t n = strspn(*at, "0123456789");
    if (strspn(*at, "0") < n)
        *nonzero = 1;
    *at += n;
    return n;
}

/* Checks the grammar here, because strtof, which rounds to nearest, accepts more: blanks, signs,
 * hexadecimal, names. The program never sets a locale. */
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
    printf("  %-26s %s\n", "-h, --help", "print this text");
    if (line->more)
        printf("\n%s", line->more);
}

static sb_status take_value(const sb_opt *o, const char *arg, sb_error *err)
{
    sb_repeated *list = o->value;
    switch (o->kind) {
    case SB_OPT_FLAG:
        *(int *)o->value = 1;
        return SB_OK;
    case SB_OPT_STRING:
    case SB_OPT_INPUT:
    case SB_OPT_OUTPUT:
        *(const char **)o->value = arg;
        return SB_OK;
    case SB_OPT_NUMBER:
        if (sb_parse_u64(arg, o->value))
            return SB_OK;
        return sb_fail(err, SB_ERR_USAGE, "--%s is '%s'; expected a decimal number", o->name, arg);
    case SB_OPT_REAL:
        if (sb_parse_f32(arg, o->value))
            return SB_OK;
        return sb_fail(err, SB_ERR_USAGE,
                       "--%s is '%s'; expected a number from 0 on within binary32, such as 0.7",
                       o->name, arg);
    case SB_OPT_REPEATED:
        if (list->count == SB_MAX_REPEATS)
            return sb_fail(err, SB_ERR_USAGE, "--%s is given more than %d times", o->name,
                           SB_MAX_REPEATS);
        list->item[list->count++] = arg;
        return SB_OK;
    }
    return SB_OK;
}

/* --- the command line, which is left as it was typed ------------------------------------------ */

typedef struct reading {
    sb_command_line *line;
    int argc, next; /* the next argument to be read */
    char **argv;
} reading;

/* The option of exactly this name, or NULL. There are no abbreviations: a new option could change
 * their meaning. */
static const sb_opt *find(const sb_command_line *line, const char *name, size_t length)
{
    for (size_t i = 0; i < line->opt_count; i++)
        if (strlen(line->opts[i].name) == length && memcmp(line->opts[i].name, name, length) == 0)
            return &line->opts[i];
    return NULL;
}

static sb_status unknown(const reading *r, const char *option, sb_error *err)
{
    char word[64] = "";
    if (option[1] == '-')
        snprintf(word, sizeof word, "%.*s", (int)strcspn(option + 2, "="), option + 2);
    sb_closest closest = {.word = word};
    for (size_t i = 0; i < r->line->opt_count; i++)
        sb_closest_try(&closest, r->line->opts[i].name);
    return sb_fail(err, SB_ERR_USAGE, "there is no option '%s'%s%s; see 'samebit %s --help'",
                   SB_SHOW(option), closest.name ? ", but there is --" : "",
                   closest.name ? closest.name : "", r->argv[0]);
}

/* Takes one option; `arg` is the text directly after its name, or NULL. */
static sb_status take_option(reading *r, const sb_opt *o, const char *shown, const char *arg,
                             sb_error *err)
{
    if (o->arg && !arg && r->next < r->argc)
        arg = r->argv[r->next++];
    if (o->arg && !arg)
        return sb_fail(err, SB_ERR_USAGE, "option '%s' needs an argument; see 'samebit %s --help'",
                       shown, r->argv[0]);
    r->line->given |= (uint64_t)1 << (o - r->line->opts);
    return take_value(o, arg, err);
}

static sb_help_writer writer = print_help;

void sb_help_write_with(sb_help_writer other)
{
    writer = other ? other : print_help;
}

static void help(reading *r)
{
    writer(r->line);
    r->line->helped = 1;
}

/* "--name", "--name=value" */
static sb_status take_long(reading *r, const char *text, sb_error *err)
{
    size_t length = strcspn(text + 2, "=");
    const char *value = text[2 + length] ? text + 2 + length + 1 : NULL;
    const sb_opt *o = find(r->line, text + 2, length);
    if (!o && strcmp(text, "--help") == 0) {
        help(r);
        return SB_OK;
    }
    if (!o)
        return unknown(r, text, err);
    if (value && !o->arg)
        return sb_fail(err, SB_ERR_USAGE, "option '--%s' takes no argument; found '%s'", o->name,
                       SB_SHOW(text));
    return take_option(r, o, text, value, err);
}

/* "-q", "-n5", "-qn5", "-n" "5" */
static sb_status take_letters(reading *r, const char *text, sb_error *err)
{
    sb_status status = SB_OK;
    for (const char *at = text + 1; *at && !status && !r->line->helped; at++) {
        const char shown[] = {'-', *at, '\0'};
        const sb_opt *o = NULL;
        for (size_t i = 0; i < r->line->opt_count && !o; i++)
            o = r->line->opts[i].letter == *at ? &r->line->opts[i] : NULL;
        if (!o && *at == 'h') {
            help(r);
            return SB_OK;
        }
        if (!o)
            return unknown(r, shown, err);
        int ends = o->arg != NULL;
        status = take_option(r, o, shown, ends && at[1] ? at + 1 : NULL, err);
        if (ends)
            break;
    }
    return status;
}

static void take_operand(sb_command_line *line, const char *text)
{
    if (line->operands < sizeof line->operand / sizeof *line->operand)
        line->operand[line->operands] = text;
    line->operands++;
}

sb_status sb_parse(sb_command_line *line, int argc, char **argv, sb_error *err)
{
    reading r = {line, argc, 1, argv};
    int ended = 0; /* after "--" */
    if (line->opt_count > MAX_OPTS)
        return sb_fail(err, SB_ERR_USAGE, "%s has too many options", argv[0]);
    line->operands = 0;
    while (r.next < argc) {
        const char *text = argv[r.next++];
        sb_status status = SB_OK;
        if (ended || text[0] != '-' || !text[1])
            take_operand(line, text);
        else if (strcmp(text, "--") == 0)
            ended = 1;
        else
            status = text[1] == '-' ? take_long(&r, text, err) : take_letters(&r, text, err);
        if (status || line->helped)
            return status;
    }
    if (line->operands < line->min_operands || line->operands > line->max_operands)
        return sb_fail(err, SB_ERR_USAGE, "found %u operands; usage: samebit %s", line->operands,
                       line->usage);
    return sb_outputs_check(line, err);
}

sb_status sb_opt_decimal(const char *option, const char *text, double low, double high, double *out,
                         sb_error *err)
{
    const char *point = strchr(text, '.');
    size_t n = strlen(text);
    int sound = n > 0 && n < 20 && strspn(text, "0123456789.") == n && strcmp(text, ".") != 0 &&
                !(point && strchr(point + 1, '.'));
    *out = sound ? strtod(text, NULL) : 0;
    if (sound && *out >= low && *out <= high)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "--%s is '%s', expected a number from %g to %g", option,
                   SB_SHOW(text), low, high);
}
