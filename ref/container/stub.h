/* stub.h - a safetensors file without its data: the header, the length of the whole file, and a few
 * ranges of bytes that are small but needed, such as the factors of quantized layers.
 *
 * A stub is refused like a damaged file until the command has said that it reads no other data.
 * Then it is mapped at the length of the whole file; a touch of bytes that are not in the stub ends
 * the process with the name of the file (tools/cli/shrunk.h) and never gives zeros.
 *
 * The file: the header of the safetensors file with its eight bytes of length, the bytes of the
 * pieces, for each piece its offset and size, then the sizes of header and whole file, the number
 * of pieces, and SB_STUB_MAGIC. Numbers are 64 bits, little-endian. */
#ifndef SB_CONTAINER_STUB_H
#define SB_CONTAINER_STUB_H

#include "ref/container/map.h"

#define SB_STUB_MAGIC "samebit-stub-1.\n"

enum { SB_STUB_MAX_PIECES = 1 << 16 };

typedef struct sb_stub_piece {
    uint64_t at, bytes;         /* offset in the whole file */
    const unsigned char *taken; /* the bytes */
} sb_stub_piece;

typedef struct sb_stub {
    const unsigned char *header;
    uint64_t header_bytes;       /* with the eight bytes of length */
    uint64_t file_bytes;         /* of the whole file */
    const sb_stub_piece *pieces; /* behind the header, by offset, without overlap */
    size_t piece_count;
} sb_stub;

sb_status sb_stub_write(const char *path, const sb_stub *stub, sb_error *err);

/* Said once by a command that reads only headers, before it opens files. */
void sb_stubs_allow(void);

/* If the mapped file is a stub: sets *is to 1 and replaces *map by the mapping of the whole file.
 * SB_ERR_INPUT if the stub is damaged, or if stubs are not allowed. */
sb_status sb_stub_open(const char *path, sb_map *map, int *is, sb_error *err);

/* Opens a stub, whether stubs are allowed or not: *out points into *map and *pieces, which the
 * caller closes and frees. If the file is none, *is is 0, and *map is the file. */
sb_status sb_stub_load(const char *path, sb_map *map, int *is, sb_stub *out, sb_stub_piece **pieces,
                       sb_error *err);

/* 1 if the stub has these bytes of the whole file. */
int sb_stub_has(const sb_stub *stub, uint64_t at, uint64_t bytes);

/* The same for a file, which may be no stub. */
int sb_stub_holds(const char *path, uint64_t at, uint64_t bytes);

#endif
