/* capture.h - records a session as steps: every call of a session, of any backend, becomes an
 * sb_step in memory and is passed on. One step is in memory at a time.
 *
 *   sb_capture_new(&options, &capture, err);
 *   sb_capture_join(capture, &session_options);    before sb_session_new
 *   sb_capture_follow(capture, session, 0, 0);     its calls are recorded from here on
 *   sb_session_feed(session, ...); sb_session_logits(...);
 *   sb_capture_end(capture, NULL, err);            passes the step on
 *   sb_capture_round(capture, 0);
 *   sb_rounds_next(rounds, &ask, &round, err);     a step for each draft, then the verify step
 *   sb_capture_end(capture, &round, err);
 *   sb_capture_finish(capture, err);               the final state: a step without rows
 *
 * Calls are told apart by their first op. The entries that a drafter makes behind a call (S-15)
 * belong to the step of this call. The rows that a rollback by replay feeds again are not a
 * call of their own. */
#ifndef SB_TRACE_CAPTURE_H
#define SB_TRACE_CAPTURE_H

#include "ref/run/session.h"
#include "tools/judge/trace/step.h"

typedef enum sb_capture_states {
    SB_CAPTURE_NO_STATES,
    SB_CAPTURE_STATE_DIGESTS, /* of every piece; also the data of pieces that match `taps` */
    SB_CAPTURE_ALL_STATES     /* with all data */
} sb_capture_states;

typedef struct sb_capture_options {
    const char *taps; /* taps whose data is kept (sb_tap_matches), copied; else only the digest */
    sb_capture_states states;
    const sb_step_sampling *sampling; /* declared of every sequence, in its first step; or NULL */
    sb_step_fn take;                  /* receives the steps */
    void *take_ctx;
} sb_capture_options;

typedef struct sb_capture sb_capture;

sb_status sb_capture_new(const sb_capture_options *options, sb_capture **out, sb_error *err);
void sb_capture_free(sb_capture *capture);

/* Adds itself to the options, before their tap and around their hook. Both still get every value
 * and op, and their changes are recorded. */
void sb_capture_join(sb_capture *capture, sb_session_options *options);

/* From now on records the calls of `session`, which was made with the joined options, as this
 * sequence with slot number `slot`. */
void sb_capture_follow(sb_capture *capture, const sb_session *session, uint32_t sequence,
                       uint32_t slot);

/* Sets the round number of the next draft, decode and verify rows. */
void sb_capture_round(sb_capture *capture, uint64_t number);

/* Ends the current call, if any, with its round or NULL. */
sb_status sb_capture_end(sb_capture *capture, const sb_round *round, sb_error *err);

/* Ends the current call, then passes on a step without rows that has the final state and ends the
 * sequence. */
sb_status sb_capture_finish(sb_capture *capture, sb_error *err);

/* Drops the remains of a failed call. */
void sb_capture_drop(sb_capture *capture);

#endif
