/* guarded_map.h - for fuzz targets: what stands behind a file that is mapped must not be read.
 *
 * A mapping has the rest of its last page, and then whatever lies there, so a size that is believed
 * reads on in silence. The Makefile links the targets so that files are opened here (--wrap): a
 * file is a copy whose end is the end of memory, but for less than SB_GUARD_ALIGNED bytes; with the
 * address sanitizer it ends to the byte. */
#ifndef SB_TESTS_FUZZ_GUARDED_MAP_H
#define SB_TESTS_FUZZ_GUARDED_MAP_H

#include "ref/container/map.h"

enum { SB_GUARD_ALIGNED = 64 };

#endif
