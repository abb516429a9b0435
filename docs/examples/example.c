/* example.c - a checkpoint is opened and run: the tokens and digests are those of `samebit run`.
 *
 *   cc example.c $(pkg-config --cflags --libs samebit) -o example
 *   samebit make T1 --preset T1 --seed 42
 *   ./example T1 */
#include <samebit.h>
#include <stdio.h>
#include <stdlib.h>

static samebit_error err;

static void need(samebit_status status)
{
    if (status == SAMEBIT_OK)
        return;
    fprintf(stderr, "example: %s\n", err.text);
    exit((int)status);
}

int main(int argc, char **argv)
{
    static const uint32_t prompt[3] = {1, 2, 3};
    enum { N = 4 };
    samebit_checkpoint *checkpoint = NULL;
    samebit_session *session = NULL;
    samebit_state *state = NULL;
    samebit_session_options options = {0};
    samebit_digest digest, target, mtp;
    uint32_t tokens[N];
    double vocab, has_mtp;

    if (argc != 2) {
        fprintf(stderr, "usage: example CKPT\n");
        return SAMEBIT_USAGE;
    }
    need(samebit_checkpoint_open(argv[1], NULL, 0, &checkpoint, &err));
    need(samebit_checkpoint_config(checkpoint, "vocab_size", &vocab, &err));
    need(samebit_checkpoint_config(checkpoint, "has_mtp", &has_mtp, &err));

    options.size = sizeof options;
    options.mtp = has_mtp != 0;
    need(samebit_session_new(checkpoint, &options, &session, &err));

    /* step by step, each token chosen from the logits before it */
    float *logits = malloc((size_t)vocab * sizeof *logits);
    if (!logits)
        return SAMEBIT_REFUSED;
    need(samebit_session_feed(session, prompt, 3, &err));
    for (int i = 0; i < N; i++) {
        if (i > 0)
            need(samebit_session_feed(session, &tokens[i - 1], 1, &err));
        need(samebit_session_logits(session, samebit_session_rows(session) - 1, 1, logits, &err));
        need(samebit_session_pick(session, &tokens[i], &err));
        need(samebit_digest_f32(logits, (size_t)vocab, &digest, &err));
        printf("token %u logits %s\n", (unsigned)tokens[i], digest.hex);
    }
    need(samebit_session_state(session, &state, &err));
    need(samebit_state_digests(state, &target, &mtp, &err));
    printf("state of %u tokens: target %s mtp %s\n", (unsigned)samebit_state_position(state),
           target.hex, mtp.hex);

    free(logits);
    samebit_state_free(state);
    samebit_session_free(session);
    samebit_checkpoint_close(checkpoint);
    return 0;
}
