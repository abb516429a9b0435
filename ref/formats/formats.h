/* formats.h - the rows of formats.def: the number formats that are stored. format.h has their
 * functions. */
#ifndef SB_FORMATS_FORMATS_H
#define SB_FORMATS_FORMATS_H

typedef enum sb_format {
#define SB_FORMAT(id, name, bits, clause) SB_FORMAT_##id,
#include "ref/formats/formats.def"
#undef SB_FORMAT
    SB_FORMAT_COUNT
} sb_format;

#endif
