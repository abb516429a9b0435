/* cubin_opcodes.c - which instructions a cubin has, without a disassembler.
 *
 *   cubin_opcodes FILE     one line per kernel and opcode: KERNEL OPCODE NAME COUNT
 *
 * A cubin is a little-endian ELF file of 64 bits with a section .text.KERNEL for each kernel; an
 * instruction has 16 bytes, the low twelve bits of which are the opcode. Exit status 1 and a line
 * on stderr for what is no such file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"

enum { OPCODES = 4096, HEADER = 64, SECTION = 64, MOST_BYTES = 1 << 28 };

static const struct {
    unsigned opcode;
    const char *name;
} names[] = {
    {0x221, "FADD"},   {0x223, "FFMA"},   {0x237, "IMMA"},      {0x23c, "HMMA"}, {0x23e, "F2FP"},
    {0x23f, "DMMA"},   {0x27a, "QMMA"},   {0x47a, "QMMA.SF"},   {0x47f, "OMMA"}, {0x83b, "LDSM"},
    {0xfae, "LDGSTS"}, {0x97e, "LDG256"}, {0x9c8, "SETMAXREG"},
};

typedef struct image {
    unsigned char *bytes;
    uint64_t size;
} image;

static int wrong(const char *path, const char *why)
{
    fprintf(stderr, "cubin_opcodes: %s: %s\n", SB_SHOW(path), why);
    return 1;
}

static int read_image(const char *path, image *out)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size >= 0 && size <= MOST_BYTES && fseek(file, 0, SEEK_SET) == 0) {
        out->size = (uint64_t)size;
        out->bytes = malloc(out->size + 1);
        if (out->bytes && fread(out->bytes, 1, out->size, file) != out->size)
            size = -1;
    }
    if (file)
        fclose(file);
    return size < 0 || !out->bytes ? wrong(path, "cannot be read") : 0;
}

/* Whether [at, at + count) lies in the file. */
static int inside(const image *file, uint64_t at, uint64_t count)
{
    return at <= file->size && count <= file->size - at;
}

/* The name at an offset of the table of strings, NULL unless it ends within the file. */
static const char *name_at(const image *file, uint64_t strings, uint32_t offset)
{
    uint64_t at = strings + offset;
    if (strings > file->size || at >= file->size || !memchr(file->bytes + at, 0, file->size - at))
        return NULL;
    return (const char *)file->bytes + at;
}

static void print_counts(const char *kernel, const unsigned char *code, uint64_t bytes)
{
    uint64_t count[OPCODES] = {0};
    for (uint64_t at = 0; at + 16 <= bytes; at += 16)
        count[sb_load_u16(code + at) & 0xfff]++;
    for (unsigned opcode = 0; opcode < OPCODES; opcode++) {
        const char *name = "-";
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (names[i].opcode == opcode)
                name = names[i].name;
        if (count[opcode])
            printf("%s 0x%03x %s %" PRIu64 "\n", SB_SHOW(kernel), opcode, name, count[opcode]);
    }
}

static int print_file(const char *path, const image *file)
{
    if (!inside(file, 0, HEADER) || memcmp(file->bytes, "\177ELF\2\1", 6) != 0)
        return wrong(path, "no ELF file of 64 bits, little-endian");
    uint64_t table = sb_load_u64(file->bytes + 0x28);
    unsigned each = sb_load_u16(file->bytes + 0x3a), sections = sb_load_u16(file->bytes + 0x3c);
    unsigned names_in = sb_load_u16(file->bytes + 0x3e);
    if (each != SECTION || !inside(file, table, (uint64_t)each * sections) || names_in >= sections)
        return wrong(path, "the table of sections is damaged");
    uint64_t strings = sb_load_u64(file->bytes + table + (uint64_t)names_in * SECTION + 24);
    for (unsigned i = 0; i < sections; i++) {
        const unsigned char *section = file->bytes + table + (uint64_t)i * SECTION;
        const char *name = name_at(file, strings, sb_load_u32(section));
        uint64_t at = sb_load_u64(section + 24), bytes = sb_load_u64(section + 32);
        if (!name)
            return wrong(path, "the name of a section is damaged");
        if (strncmp(name, ".text.", 6) != 0)
            continue;
        if (!inside(file, at, bytes) || bytes % 16)
            return wrong(path, "the code of a kernel is damaged");
        print_counts(name + 6, file->bytes + at, bytes);
    }
    return 0;
}

int main(int count, char **words)
{
    image file = {NULL, 0};
    if (count != 2) {
        fprintf(stderr, "usage: cubin_opcodes FILE\n");
        return 2;
    }
    int status = read_image(words[1], &file) || print_file(words[1], &file);
    free(file.bytes);
    return status;
}
