/* trace_example.c - how an engine writes its trace with samebit_trace.h, level by level: the run of
 * docs/trace.md.
 *
 *     trace_example OUT LEVEL NUMBERS
 *
 * The files of the folder NUMBERS have the values that an engine would compute, as binary32, row
 * after row: logits.f32 (the last row of the prompt, then all rows), g.f32 (a tap, of all rows),
 * conv_state.f32 (an array of the state after the prompt and after each round). The program is
 * complete without samebit; tools/record/trace_example.py and trace_example.rs write the same
 * bytes. */
#include "tools/record/samebit_trace.h"

enum { VOCAB = 384, HEADS = 4, CHANNELS = 512 };

static const uint32_t prompt[] = {1, 2, 3};
static const uint32_t emitted[] = {127, 153, 16, 35, 116};

/* The next `count` numbers of a file; the engine would have them in memory. */
static float *take(FILE *file, size_t count)
{
    static float room[2 * VOCAB + 4 * CHANNELS];
    if (fread(room, sizeof *room, count, file) != count) {
        fprintf(stderr, "trace_example: a file of NUMBERS is too short\n");
        exit(1);
    }
    return room;
}

static FILE *open_numbers(const char *folder, const char *name)
{
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "trace_example: cannot open %s\n", path);
        exit(1);
    }
    return file;
}

/* Levels 0 and 1: one token after the other. */
static void plain_run(sbt_trace *t, int level, FILE *logits)
{
    sbt_sequence chat = sbt_new_sequence(t, -1);
    const uint32_t last = 2;
    sbt_prompt(t, &chat, prompt, 3);
    if (level >= 1)
        sbt_logits(t, SBT_F32, take(logits, VOCAB), 1, &last);
    sbt_end_call(t);
    for (int i = 0; i < 3; i++) {
        sbt_decode(t, &chat, emitted[i]);
        if (level >= 1)
            sbt_logits(t, SBT_F32, take(logits, VOCAB), 1, NULL);
        sbt_end_call(t);
    }
}

/* From level 2 on: rounds of one draft, states before each call, a tap. */
static void call_seen(sbt_trace *t, int level, const sbt_sequence *chat, FILE *g, FILE *conv)
{
    const uint64_t heads[2] = {t->row_count, HEADS}, window[2] = {3, CHANNELS};
    if (level >= 3) {
        sbt_state(t, chat, NULL, NULL);
        if (chat->began || !t->row_count) /* the state at position 0 is empty */
            sbt_state_tensor(t, chat, "layers.0.linear_attn.conv_state", SBT_F32, 2, window,
                             take(conv, 3 * CHANNELS));
    }
    if (level >= 4 && t->row_count)
        sbt_tensor(t, "layers.0.linear_attn.g", SBT_F32, 2, heads,
                   take(g, (size_t)t->row_count * HEADS));
    sbt_end_call(t);
}

static void run_in_rounds(sbt_trace *t, int level, FILE *logits, FILE *g, FILE *conv)
{
    sbt_sequence chat = sbt_new_sequence(t, 0);
    const uint32_t last = 2;
    sbt_prompt(t, &chat, prompt, 3);
    sbt_logits(t, SBT_F32, take(logits, VOCAB), 1, &last);
    call_seen(t, level, &chat, g, conv);
    for (int i = 0; i < 4; i += 2) { /* in both rounds the draft is right */
        sbt_verify(t, &chat, emitted[i], &emitted[i + 1], 1, 1, &emitted[i + 1], 2);
        sbt_logits(t, SBT_F32, take(logits, 2 * VOCAB), 2, NULL);
        call_seen(t, level, &chat, g, conv);
    }
    if (level >= 3) /* a call without rows: the state that the last call left */
        call_seen(t, level, &chat, g, conv);
}

int main(int argc, char **argv)
{
    char message[256];
    if (argc != 4) {
        fprintf(stderr, "usage: trace_example OUT LEVEL NUMBERS\n");
        return 2;
    }
    int level = atoi(argv[2]);
    FILE *logits = open_numbers(argv[3], "logits.f32"), *g = open_numbers(argv[3], "g.f32"),
         *conv = open_numbers(argv[3], "conv_state.f32");
    sbt_trace *t = sbt_open(argv[1], "mine 1.0", VOCAB, level);
    if (!t)
        return 1;
    if (level < 2)
        plain_run(t, level, logits);
    else
        run_in_rounds(t, level, logits, g, conv);
    fclose(logits);
    fclose(g);
    fclose(conv);
    if (sbt_finish(t, message, sizeof message)) {
        fprintf(stderr, "trace_example: %s\n", message);
        return 1;
    }
    return 0;
}
