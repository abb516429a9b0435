/* spec.h - the version of the specification. */
#ifndef SB_BASE_SPEC_H
#define SB_BASE_SPEC_H

/* The version of docs/spec.md that this library implements. Every JSON document and every state
 * file contains it. */
enum { SB_SPEC_VERSION = 2 };

#endif
