/* status.h - error reporting of all functions of samebit.
 *
 * A function that can fail returns an sb_status. If it is not SB_OK, the function has written one
 * line to the caller's sb_error: what was found, where (file, tensor, element), and what was
 * expected. Libraries never print and never exit. The command line converts a status to an exit
 * status. */
#ifndef SB_BASE_STATUS_H
#define SB_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sb_status {
    SB_OK = 0,
    SB_ERR_DIFF,        /* a comparison or a check failed                    -> exit 1 */
    SB_ERR_USAGE,       /* the caller asked for something that makes no sense -> exit 2 */
    SB_ERR_INPUT,       /* a file is damaged or breaks its format             -> exit 3 */
    SB_ERR_UNSUPPORTED, /* a file is sound, but not of this model family      -> exit 3 */
    SB_ERR_IO,          /* the operating system refused                       -> exit 3 */
    SB_ERR_MEMORY,      /* out of memory, or a size that overflows            -> exit 3 */
    SB_ERR_NUMERIC,     /* a value left the domain of the model (NaN, Inf)    -> exit 3 */
    SB_ERR_SKIPPED      /* something required was skipped or mistrusted       -> exit 4 */
} sb_status;

typedef struct sb_error {
    char text[1024];
} sb_error;

#if defined(__GNUC__)
#define SB_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#else
#define SB_PRINTF(format_at, args_at)
#endif

/* Writes the message (err may be NULL) and returns code, so that callers can write `return
 * sb_fail(...)`. */
sb_status sb_fail(sb_error *err, sb_status code, const char *format, ...) SB_PRINTF(3, 4);

/* Puts "prefix: " before the existing message; returns code. */
sb_status sb_fail_in(sb_error *err, sb_status code, const char *prefix);

/* The exit status of a command that ended with this status (0, 1, 2, 3 or 4). */
int sb_exit_status(sb_status code);

#ifdef __cplusplus
}
#endif

#endif
