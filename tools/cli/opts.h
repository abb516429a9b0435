/* opts.h - one table of options per command: parsing, checking and --help come from it. */
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
    SB_OPT_REAL,    /* float: the nearest to a decimal number that is not negative */
    SB_OPT_REPEATED /* sb_repeated; what is a path in it is read */
} sb_opt_kind;

typedef struct sb_opt {
    const char *name; /* long name, without the dashes */
    char letter;      /* one-letter form, or 0 */
    sb_opt_kind kind;
    void *value;
    const char *arg; /* what the argument is called in --help, NULL for a flag */
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
    const char *more; /* text behind the options (examples), or NULL */
    unsigned min_operands, max_operands;
    unsigned written;       /* bit i: operand i is a folder that is written; others are read */
    int names;              /* operands are no paths */
    const char *operand[4]; /* filled in */
    unsigned operands;      /* filled in */
    uint64_t given;         /* filled in: bit i, option i stood there */
    int helped;             /* --help was given and has been printed: nothing is left to do */
} sb_command_line;

/* Parses argv[1..], which stays as it is; options are named in full. SB_ERR_USAGE names the option
 * or operand. An output that the command reads, or that is its other output, is refused. */
sb_status sb_parse(sb_command_line *line, int argc, char **argv, sb_error *err);

/* What writes the help of a command; NULL stands for text on stdout, which is the default. */
typedef void (*sb_help_writer)(const sb_command_line *line);
void sb_help_write_with(sb_help_writer writer);

/* A number out of decimal digits; 0 if text is anything else. */
int sb_parse_u64(const char *text, uint64_t *value);

/* The binary32 nearest to "0.7", ".7" or "7e-1"; 0 if text is anything else, or of a magnitude that
 * binary32 has not. */
int sb_parse_f32(const char *text, float *value);

/* The value of an option: "273", "0.78", digits with at most one point, from `low` to `high`. */
sb_status sb_opt_decimal(const char *option, const char *text, double low, double high, double *out,
                         sb_error *err);

/* The shortest text from which sb_parse_f32 gets a finite value back. */
typedef struct sb_f32_text {
    char text[24];
} sb_f32_text;
sb_f32_text sb_print_f32(float value);

#endif
