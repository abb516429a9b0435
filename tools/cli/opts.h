/* opts.h - one table of options per command: for parsing, checking and --help. */
#ifndef SB_CLI_OPTS_H
#define SB_CLI_OPTS_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

enum { SB_MAX_REPEATS = 64 };

/* An option that may be given several times. */
typedef struct sb_repeated {
    const char *item[SB_MAX_REPEATS];
    size_t count;
} sb_repeated;

typedef enum sb_opt_kind {
    SB_OPT_FLAG,    /* int: set to 1 */
    SB_OPT_STRING,  /* const char * */
    SB_OPT_INPUT,   /* the same: a file or folder that is read, or @FILE, KIND:FILE, NAME=FILE */
    SB_OPT_OUTPUT,  /* the same: a file or folder that is written */
    SB_OPT_NUMBER,  /* uint64_t: decimal digits */
    SB_OPT_REAL,    /* float: the nearest to a nonnegative decimal number */
    SB_OPT_REPEATED /* sb_repeated; paths in it are read */
} sb_opt_kind;

typedef struct sb_opt {
    const char *name; /* long name, without the dashes */
    char letter;      /* one-letter form, or 0 */
    sb_opt_kind kind;
    void *value;
    const char *arg; /* name of the argument in --help, NULL for a flag */
    const char *help;
} sb_opt;

/* The row that most commands have. */
#define SB_OPT_JSON(as_json)                                                                       \
    {                                                                                              \
        "json", 0, SB_OPT_FLAG, (as_json), NULL, "one JSON document on stdout"                     \
    }

typedef struct sb_command_line {
    const char *usage; /* "run CKPT --tokens 1,2,3 [options]" */
    const char *about; /* a paragraph */
    const sb_opt *opts;
    size_t opt_count;
    const char *more; /* text after the options (examples), or NULL */
    unsigned min_operands, max_operands;
    unsigned written;       /* bit i: operand i is a folder to write; other operands are read */
    int names;              /* operands are no paths */
    const char *operand[4]; /* filled in */
    unsigned operands;      /* filled in */
    uint64_t given;         /* filled in: bit i: option i was given */
    int helped;             /* --help was given and printed: nothing is left to do */
} sb_command_line;

/* Parses argv[1..] without changing it; option names are not abbreviated. SB_ERR_USAGE names the
 * option or operand. Refuses an output that the command also reads, or that is another output. */
sb_status sb_parse(sb_command_line *line, int argc, char **argv, sb_error *err);

/* Writes the help of a command. NULL stands for text on stdout, which is the default. */
typedef void (*sb_help_writer)(const sb_command_line *line);
void sb_help_write_with(sb_help_writer writer);

/* Reads a number of decimal digits; returns 0 for any other text. */
int sb_parse_u64(const char *text, uint64_t *value);

/* The binary32 nearest to "0.7", ".7" or "7e-1"; returns 0 for any other text, or a magnitude
 * outside the range of binary32. */
int sb_parse_f32(const char *text, float *value);

/* Reads the value of an option from `low` to `high`: digits with at most one point, "273",
 * "0.78". */
sb_status sb_opt_decimal(const char *option, const char *text, double low, double high, double *out,
                         sb_error *err);

/* The shortest text that sb_parse_f32 reads as the same finite value. */
typedef struct sb_f32_text {
    char text[24];
} sb_f32_text;
sb_f32_text sb_print_f32(float value);

#endif
