/* guarded_map.h - for fuzz targets: detects reads behind the end of a mapped file.
 *
 * A mapping continues to the end of its last page, and other memory may follow. A reader that
 * trusts a wrong size therefore reads on without an error. The Makefile links the targets so that
 * this file opens files (--wrap). It copies a file so that inaccessible memory follows less than
 * SB_GUARD_ALIGNED bytes behind its end; with the address sanitizer, directly behind its end. */
#ifndef SB_TESTS_FUZZ_GUARDED_MAP_H
#define SB_TESTS_FUZZ_GUARDED_MAP_H

#include "ref/container/map.h"

enum { SB_GUARD_ALIGNED = 64 };

#endif
