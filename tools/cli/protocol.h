/* protocol.h - the parts of `samebit vectors` and `samebit judge` for kernels with a state. */
#ifndef SB_CLI_PROTOCOL_H
#define SB_CLI_PROTOCOL_H

#include "ref/base/status.h"

/* vectors protocol ...: argv[1] is "protocol". */
sb_status sb_protocol_vectors(int argc, char **argv, sb_error *err);

/* True for a file of protocol vectors; 0, too, if the file cannot be read. */
int sb_protocol_file(const char *path);

/* Judges and prints the verdict; arith may be NULL. SB_ERR_DIFF: the verdict is FAIL. */
sb_status sb_protocol_verdict(const char *file, const char *got, const char *arith, int as_json,
                              sb_error *err);

#endif
