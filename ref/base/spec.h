/* spec.h - which version of the specification this is. */
#ifndef SB_BASE_SPEC_H
#define SB_BASE_SPEC_H

/* The version of docs/spec.md that this library realises; every JSON document and every state file
 * carries it. */
enum { SB_SPEC_VERSION = 2 };

#endif
