/* npy.h - the format of one NumPy array: numpy.lib.format, versions 1 to 3 (J-14). */
#ifndef SB_DUMP_NPY_H
#define SB_DUMP_NPY_H

#include "tools/dump/arrays.h"

/* Adds the array in `size` bytes, which must outlive the list. Messages name `file`. */
sb_status sb_npy_parse(const unsigned char *bytes, size_t size, const char *file, const char *name,
                       sb_dump_arrays *list, sb_error *err);

#endif
