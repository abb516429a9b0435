/* capture.h - what a session computes, as steps: every call of a session, of any backend, becomes
 * an sb_step in memory and is handed on. One step is in memory at a time.
 *
 *   sb_capture_new(&options, &capture, err);
 *   sb_capture_join(capture, &session_options);          before sb_session_new
 *   sb_capture_follow(capture, session, 0, 0);           from here on its calls are recorded
 *   sb_session_feed(session, ...); sb_session_logits(...);
 *   sb_capture_end(capture, NULL, err);                  the step is handed on
 *   sb_capture_round(capture, 0);
 *   sb_rounds_next(rounds, &ask, &round, err);           a step for each draft, then the verify
 * step sb_capture_end(capture, &round, err); sb_capture_finish(capture, err); the state at the end:
 * a step without rows
 *
 * Calls are told apart by the ops they begin with; feeding again what a rollback by replay feeds
 * again is no call of its own. */
#ifndef SB_TRACE_CAPTURE_H
#define SB_TRACE_CAPTURE_H

#include "ref/run/session.h"
#include "tools/trace/step.h"

typedef enum sb_capture_states {
    SB_CAPTURE_NO_STATES,
    SB_CAPTURE_STATE_DIGESTS, /* of every piece; the data of those that `taps` fits, too */
    SB_CAPTURE_ALL_STATES     /* with all data */
} sb_capture_states;

typedef struct sb_capture_options {
    const char *taps; /* whose data is kept (sb_tap_matches); copied. Of the others the digest */
    sb_capture_states states;
    sb_step_fn take; /* gets the steps */
    void *take_ctx;
} sb_capture_options;

typedef struct sb_capture sb_capture;

sb_status sb_capture_new(const sb_capture_options *options, sb_capture **out, sb_error *err);
void sb_capture_free(sb_capture *capture);

/* Puts itself before the tap and around the hook that `options` have: both still get every value
 * and op, and what they change is what is recorded. */
void sb_capture_join(sb_capture *capture, sb_session_options *options);

/* The calls that follow are of `session`, which was made with the joined options, and of this
 * sequence; it reads slot number `slot`. */
void sb_capture_follow(sb_capture *capture, const sb_session *session, uint32_t sequence,
                       uint32_t slot);

/* The number that draft, decode and verify rows get from here on. */
void sb_capture_round(sb_capture *capture, uint64_t number);

/* Ends the call that is being recorded, with the round that it was, or NULL. Nothing if there is
 * none. */
sb_status sb_capture_end(sb_capture *capture, const sb_round *round, sb_error *err);

/* The same, and then a step without rows with the state as it is now, which ends the sequence. */
sb_status sb_capture_finish(sb_capture *capture, sb_error *err);

/* Throws away what a failed call left. */
void sb_capture_drop(sb_capture *capture);

#endif
