/* peers.h - what other testers' criteria say of the same logits: constants, for comparison only. */
#ifndef SB_FAULT_PEERS_H
#define SB_FAULT_PEERS_H

#include "ref/run/session.h"
#include "tools/trace/step.h"

typedef enum sb_peer {
    SB_PEER_close,  /* torch.testing.assert_close, its defaults for the activation type */
    SB_PEER_nmse,   /* squared error over squared value of the last logits: 1e-2 */
    SB_PEER_cosine, /* of the logits of each row: 0.99 */
    SB_PEER_top1,   /* the largest logit of each row */
    SB_PEERS
} sb_peer;
const char *sb_peer_name(sb_peer peer);

typedef struct sb_peers {
    int caught[SB_PEERS];
    size_t rows; /* of logits that were compared */
    double nmse; /* of the last row */
} sb_peers;

/* The logits of one row, of the reference and of the engine. */
void sb_peers_row(sb_peers *peers, const float *expected, const float *found, size_t n, int narrow);

/* After the last row. */
void sb_peers_end(sb_peers *peers);

#endif
