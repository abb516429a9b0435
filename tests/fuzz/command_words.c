#include "tests/fuzz/command_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

const char *const command_given[] = {
    "make bf --preset T4 --layers 1 --tokenizer",
    "make other --preset T4 --layers 1 --seed 7",
    "make q --preset T4 --layers 1 --format nvfp4-ct",
    "run bf --tokens 1,2 -n 1 --trace tr",
    "state save bf --tokens 1,2 -o st",
    "golden write gd bf --tokens 1,2 -n 1",
    "vectors rmsnorm --shape rows=1,n=32 -o v",
    "vectors protocol --rounds 1 -o p",
    "diff bf --engine sim:sequential+last_column_lost --forced --tokens 1,2 -n 1 --bundle b",
    NULL};

/* Command lines with exit status 0 or 1, at least one for each command. Those with a ! may end
 * otherwise. */
static const char *const lines[] = {
    "--help",
    "make out --preset T4 --layers 1",
    "make out --preset T4 --layers 1 --format int4-awq --seed 3 --json",
    "make out --weights ../given/bf --format fp8-block",
    "make --list",
    "info ../given/bf --json",
    "info ../given/q --laws",
    "info --profiles --json",
    "info --knobs",
    "info --ops",
    "hash ../given/bf",
    "hash ../given/q --values --json",
    "check ../given/q --against ../given/bf --json",
    "check ../given/bf --headers --junit out.xml",
    "check ../given/bf --need mtp --for vllm --only 1,2 -v",
    "check --list",
    "floor ../given/q --bandwidth 100 --json",
    "floor ../given/bf --bandwidth 273",
    "convert ../given/q out --to nvfp4-modelopt",
    "graft ../given/bf --take mtp.* --from ../given/other -o out --json",
    "tokenize ../given/bf hello --json",
    "tokenize ../given/bf --decode 1,2,3",
    "run ../given/bf --tokens 1,2 -n 1",
    "run ../given/bf --tokens 1,2 -n 2 --draft 2 --json",
    "run ../given/bf --prompt hello -n 1 --temp 0.7 --top-k 3 --top-p 0.9 --min-p 0.1 --seed 1",
    "run ../given/bf --tokens 1,2 -n 1 --profile hf --set beta=act --logits out.npy",
    "run ../given/bf --tokens 1,2 -n 1 --trace out --taps logits --state-out st",
    "run ../given/bf --tokens 3 -n 1 --state-in ../given/st",
    "accept ../given/bf --tokens-file ../given/ids -K 2",
    "diff ../given/bf --engine sim:sequential --tokens 1,2 -n 1",
    "diff ../given/bf --engine ../given/tr --allow-self --json --jsonl out.jsonl",
    "diff ../given/bf --engine sim:pairwise --forced --tokens 1,2 -n 1 --report out.html --junit "
    "j.xml",
    "compare ../given/bf ../given/other --tokens 1,2,3,4 --json",
    "golden write out ../given/bf --tokens 1,2 -n 1",
    "golden verify ../given/gd ../given/bf",
    "state save ../given/bf --tokens 5 -o out --json",
    "state info ../given/st",
    "state diff ../given/st ../given/st --json",
    "replay ../given/b --json",
    "replay ../given/b --backend sim:pairwise",
    "vectors rmsnorm --shape rows=1,n=32 --arith fp32 -o out",
    "vectors --list",
    "vectors protocol --layout vllm --rounds 1 -o out",
    "!judge ../given/v ../given/v --json",
    "!judge ../given/p ../given/p",
    "bench cpu --preset T4 --layers 1 --tokens 1 --self-test",
    "!bench decode --preset T4",
    "trace ../given/tr --json",
    "trace ../given/tr --checkpoint ../given/bf --write out",
    "trace --kinds",
    "fault --list",
    "fault F25 --tokens 2",
};

static const char *const numbers[] = {"0",
                                      "1",
                                      "2",
                                      "3",
                                      "7",
                                      "64",
                                      "257",
                                      "-1",
                                      "-0",
                                      "+1",
                                      "",
                                      " 1",
                                      "1 ",
                                      "0x10",
                                      "1e3",
                                      "0.5",
                                      "2147483648",
                                      "4294967295",
                                      "4294967296",
                                      "9223372036854775808",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "99999999999999999999999999999999",
                                      "NaN",
                                      "inf",
                                      "-inf",
                                      "1e-46",
                                      "1e39",
                                      "0.999999999999999999999999999999999999999999",
                                      "1,2",
                                      "x"};

static const char *const paths[] = {"../given/bf",
                                    "../given/q",
                                    "../given/other",
                                    "../given/tr",
                                    "../given/st",
                                    "../given/gd",
                                    "../given/v",
                                    "../given/b",
                                    "../given/bf/config.json",
                                    "../given/bf/tokenizer.json",
                                    "../given/ids",
                                    "../given/empty",
                                    "../given/garbage",
                                    "../given/json",
                                    "../given/none",
                                    "../given",
                                    ".",
                                    "",
                                    "/dev/null",
                                    "org/name",
                                    "org/name@main",
                                    "@../given/ids",
                                    "mtp.*=../given/other",
                                    "../given/bf/"};

static const char *const outputs[] = {"out",
                                      "out.json",
                                      "out.tar",
                                      "none/out",
                                      ".",
                                      "..",
                                      "",
                                      "/dev/null",
                                      "/dev/full",
                                      "out/",
                                      "out.html",
                                      "-",
                                      "../given/bf/config.json",
                                      "../given",
                                      "/nonexistent/out"};

static const char *const words[] = {"T1",
                                    "T4",
                                    "bf16",
                                    "nvfp4-ct",
                                    "int4-gptq",
                                    "fp8-block",
                                    "exact",
                                    "hf",
                                    "vllm",
                                    "sm121",
                                    "w4a4",
                                    "act=f32",
                                    "beta=act",
                                    "delta_rule=chunk64",
                                    "delta_rule=",
                                    "=x",
                                    "sim:sequential",
                                    "sim:",
                                    "sim:pairwise+neighbour_pairs",
                                    "ref",
                                    "emu",
                                    "emu:1",
                                    "gpu",
                                    "1,2,3",
                                    "1,,2",
                                    "3,0,2",
                                    "0,0",
                                    ",",
                                    "all",
                                    "none",
                                    "mtp",
                                    "mtp.*",
                                    "logits,*.g",
                                    "snapshots",
                                    "replay",
                                    "residual",
                                    "match",
                                    "rmsnorm",
                                    "linear",
                                    "normal",
                                    "fp32",
                                    "rows=1,n=32",
                                    "rows=0",
                                    "rows=99999999999",
                                    "fp4-nearest",
                                    "cpu",
                                    "write",
                                    "verify",
                                    "save",
                                    "info",
                                    "\033[2Jx",
                                    "\xc2\x9b",
                                    "\xe2\x80\xae",
                                    "\xff\xfe",
                                    "a\nb",
                                    "%s%n%s",
                                    "{}",
                                    "*",
                                    "[",
                                    "~",
                                    "\xf0\x9f\x98\x80"};

static char *sure(char *text)
{
    if (!text)
        abort();
    return text;
}

static char *copy_of(const char *text)
{
    return strcpy(sure(malloc(strlen(text) + 1)), text);
}

static char *joined(const char *a, const char *b, const char *c)
{
    char *out = sure(malloc(strlen(a) + strlen(b) + strlen(c) + 1));
    strcpy(out, a);
    strcat(out, b);
    return strcat(out, c);
}

static char *long_word(json_draws *d)
{
    size_t n = (size_t)1 << (8 + json_draw(d, 9));
    char *out = sure(malloc(n + 1));
    memset(out, "x1,./= "[json_draw(d, 7)], n);
    out[n] = '\0';
    return out;
}

/* A value of the kind that an option takes, or of any kind. */
static char *value_of(sb_opt_kind kind, json_draws *d)
{
    if (json_draw(d, 50) == 0)
        return long_word(d);
    if (json_draw(d, 10) == 0)
        kind = (sb_opt_kind)json_draw(d, SB_OPT_REPEATED + 1);
    switch (kind) {
    case SB_OPT_NUMBER:
    case SB_OPT_REAL:
        return copy_of(numbers[json_draw(d, json_draw(d, 2) ? 6 : COUNT(numbers))]);
    case SB_OPT_INPUT:
        return copy_of(paths[json_draw(d, COUNT(paths))]);
    case SB_OPT_OUTPUT:
        return copy_of(outputs[json_draw(d, COUNT(outputs))]);
    default:
        return copy_of(json_draw(d, 4) ? words[json_draw(d, COUNT(words))]
                                       : numbers[json_draw(d, COUNT(numbers))]);
    }
}

/* --- a vector --------------------------------------------------------------------------------- */

static void insert(command_words *w, int at, char *word)
{
    if (w->count == COMMAND_WORDS) {
        free(word);
        return;
    }
    memmove(w->word + at + 1, w->word + at, (size_t)(w->count - at) * sizeof *w->word);
    w->word[at] = word;
    w->word[++w->count] = NULL;
}

static void take_out(command_words *w, int at)
{
    free(w->word[at]);
    memmove(w->word + at, w->word + at + 1, (size_t)(w->count - at) * sizeof *w->word);
    w->count--;
}

/* A random position after the command. */
static int place(const command_words *w, json_draws *d)
{
    return w->count < 2 ? w->count : 2 + (int)json_draw(d, (size_t)(w->count - 1));
}

static void add_option(command_words *w, const command_table *table, json_draws *d)
{
    if (!table || !table->count)
        return;
    const sb_opt *o = &table->opts[json_draw(d, table->count)];
    const char letter[] = {'-', o->letter, '\0'};
    int at = place(w, d), wants = o->arg != NULL;
    char *name = o->letter && json_draw(d, 2) ? copy_of(letter) : joined("--", o->name, "");
    if (json_draw(d, 16) == 0)
        wants = !wants;
    if (!wants) {
        insert(w, at, name);
        return;
    }
    char *value = value_of(o->kind, d);
    if (json_draw(d, 3) == 0) {
        insert(w, at, joined(name, name[1] == '-' ? "=" : "", value));
        free(name);
        free(value);
    } else {
        insert(w, at, value);
        insert(w, at, name);
    }
}

static void change_word(command_words *w, json_draws *d)
{
    int at = place(w, d);
    if (at >= w->count)
        return;
    char *old = w->word[at], *new = NULL;
    char *by = value_of((sb_opt_kind)json_draw(d, SB_OPT_REPEATED + 1), d);
    size_t n = strlen(old), cut = json_draw(d, n + 1);
    switch (json_draw(d, 5)) {
    case 0: /* cut after some letters */
        old[cut] = '\0';
        new = joined(old, json_draw(d, 2) ? by : "", "");
        break;
    case 1:
        new = joined(old, "=", by);
        break;
    case 2:
        new = joined(old, json_draw(d, 2) ? "," : "", by);
        break;
    default:
        new = copy_of(by);
    }
    free(by);
    free(old);
    w->word[at] = new;
}

static void change(command_words *w, const command_table *table, json_draws *d)
{
    static const char *const odd[] = {"--", "-", "---", "-h", "--help", "--json", "-", "--no-such"};
    int at = place(w, d), to = place(w, d);
    w->works = 0;
    switch (json_draw(d, 10)) {
    case 0:
        if (at < w->count)
            take_out(w, at);
        break;
    case 1: /* doubled */
        if (at < w->count)
            insert(w, to, copy_of(w->word[at]));
        break;
    case 2:
        insert(w, at, copy_of(odd[json_draw(d, COUNT(odd))]));
        break;
    case 3:
    case 4:
        change_word(w, d);
        break;
    default:
        add_option(w, table, d);
    }
}

/* Finds the longest match: "bench step" before "bench". */
static const command_table *table_of(const command_table *tables, size_t count,
                                     const command_words *w)
{
    for (size_t i = count; i-- > 0;) {
        const char *name = tables[i].name, *blank = strchr(name, ' ');
        size_t n = blank ? (size_t)(blank - name) : strlen(name);
        if (w->count > 1 && strlen(w->word[1]) == n && memcmp(w->word[1], name, n) == 0 &&
            (!blank || (w->count > 2 && strcmp(w->word[2], blank + 1) == 0)))
            return &tables[i];
    }
    return NULL;
}

static void split(const char *line, command_words *w)
{
    insert(w, 0, copy_of("samebit"));
    while (*line) {
        size_t n = strcspn(line, " ");
        char *word = sure(malloc(n + 1));
        memcpy(word, line, n);
        word[n] = '\0';
        insert(w, w->count, word);
        line += n + (line[n] == ' ');
    }
}

void command_draw(const command_table *tables, size_t count, json_draws *d, command_words *out)
{
    *out = (command_words){.works = 1};
    if (json_draw(d, 4)) {
        const char *line = lines[json_draw(d, COUNT(lines))];
        out->works = *line != '!';
        split(line + (*line == '!'), out);
    } else { /* from the table alone */
        split(tables[json_draw(d, count)].name, out);
        for (size_t n = json_draw(d, 3); n > 0; n--)
            insert(out, out->count, value_of(SB_OPT_INPUT, d));
        change(out, table_of(tables, count, out), d);
    }
    const command_table *table = table_of(tables, count, out);
    for (size_t n = json_draw(d, 5); n > 0; n--)
        change(out, table, d);
    if (json_draw(d, 100) == 0 && out->count > 1) {
        free(out->word[1]);
        out->word[1] = value_of(SB_OPT_STRING, d);
        out->works = 0;
    }
}

void command_free(command_words *w)
{
    while (w->count)
        take_out(w, w->count - 1);
}
