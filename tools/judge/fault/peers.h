/* peers.h - the verdicts of other testers' criteria on the same logits, with fixed tolerances, for
 * comparison only. */
#ifndef SB_FAULT_PEERS_H
#define SB_FAULT_PEERS_H

#include "ref/run/session.h"
#include "tools/judge/trace/step.h"

typedef enum sb_peer {
    SB_PEER_close,  /* torch.testing.assert_close with its defaults for the activation type */
    SB_PEER_nmse,   /* squared error / squared value of the last logits, limit 1e-2 */
    SB_PEER_cosine, /* of the logits of each row, limit 0.99 */
    SB_PEER_top1,   /* the largest logit of each row */
    SB_PEERS
} sb_peer;
const char *sb_peer_name(sb_peer peer);

typedef struct sb_peers {
    int caught[SB_PEERS];
    size_t rows; /* compared rows of logits */
    double nmse; /* of the last row */
} sb_peers;

/* Adds the logits of one row. expected: the reference's; found: the engine's. */
void sb_peers_row(sb_peers *peers, const float *expected, const float *found, size_t n, int narrow);

/* Call after the last row. */
void sb_peers_end(sb_peers *peers);

#endif
