/* cubin_opcodes.c - which instructions a cubin has, without a disassembler.
 *
 *   cubin_opcodes FILE
 *       one line per kernel and opcode: KERNEL OPCODE NAME COUNT
 *   cubin_opcodes OBJECT SM
 *       the same for the code for sm_SM in an object that nvcc made for the host
 *   cubin_opcodes --loads OBJECT SM
 *       one line per kernel about its reads of global memory: KERNEL, the number of loads of 1, 2,
 *       4, 8, 16 and 32 bytes, of copies to shared memory of 4, 8 and 16 bytes, of loads that may
 *       read either memory, the most loads in flight of a thread, the most bytes in flight, and
 *       the number of loads and copies of 16 bytes or more that stand before the wait for the
 * launch before (load_counts)
 *
 * A cubin is a little-endian 64-bit ELF file with a section .text.KERNEL for each kernel. An
 * instruction has 16 bytes; its low twelve bits are the opcode. An object has its cubins in the
 * section .nv_fatbin, each after a header with its size and target. They must not be compressed
 * (nvcc --no-compress). For any other file, the exit status is 1, with a line on stderr. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"

enum { OPCODES = 4096, HEADER = 64, SECTION = 64, MOST_BYTES = 1 << 28 };
enum {
    LD = 0x980,
    LDG = 0x981,
    LDG256 = 0x97e,
    LDGSTS = 0xfae,
    BRA = 0x947,
    EXIT = 0x94d,
    RET = 0x950,
    ACQBULK = 0x82e /* griddepcontrol.wait */
};

static const struct {
    unsigned opcode;
    const char *name;
} names[] = {
    {0x221, "FADD"},      {0x223, "FFMA"},    {0x237, "IMMA"},
    {0x23c, "HMMA"},      {0x23e, "F2FP"},    {0x23f, "DMMA"},
    {0x27a, "QMMA"},      {0x47a, "QMMA.SF"}, {0x47f, "OMMA"},
    {0x83b, "LDSM"},      {0xfae, "LDGSTS"},  {0x97e, "LDG256"},
    {0x9c8, "SETMAXREG"}, {LDG, "LDG"},       {ACQBULK, "ACQBULK"},
    {0x82d, "PREEXIT"},   /* griddepcontrol.launch_dependents */
    {0x35d, "NANOSLEEP"}, /* of a register */
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

/* Whether [at, at + count) is inside the file. */
static int inside(const image *file, uint64_t at, uint64_t count)
{
    return at <= file->size && count <= file->size - at;
}

/* The name at an offset of the string table; NULL if it does not end inside the file. */
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

/* --- the reads of a kernel -------------------------------------------------------------------- */
enum { SCOREBOARDS = 6, WIDTHS = 6, COPIES = 3 };
typedef struct load_counts {
    uint64_t load[WIDTHS], copy[COPIES], either; /* by log2 of the bytes; copies begin at 4 bytes */
    uint64_t most, most_bytes;
    uint64_t early; /* of 16 bytes or more, before the first ACQBULK; 0 if there is none */
} load_counts;

/* log2 of the bytes of a load or a copy, from bits 73 to 75. Copies have another encoding from
 * sm_100 on. -1: no valid width. */
static int width_of(unsigned opcode, uint64_t high, unsigned target)
{
    static const int load[8] = {0, 0, 1, 1, 2, 3, 4, -1};
    static const int copy[2][8] = {{-1, -1, -1, -1, 2, 3, 4, -1}, {2, -1, 3, -1, 4, -1, -1, -1}};
    const unsigned code = high >> 9 & 7;
    return opcode == LDG256 ? 5 : opcode == LDGSTS ? copy[target >= 100][code] : load[code];
}

/* Counts the loads in flight. Bits 110 to 112 of a load name the scoreboard that it occupies until
 * its value has arrived (7: none). Before an instruction does anything, it waits for the
 * scoreboards of the mask in bits 116 to 121. A load is in flight until an instruction waits for
 * its scoreboard. The code is read from beginning to end as if no jump were taken. After an
 * unconditional jump or an end, no load is in flight. */
static const char *count_loads(const unsigned char *code, uint64_t bytes, unsigned target,
                               load_counts *out)
{
    uint64_t loads[SCOREBOARDS] = {0}, held[SCOREBOARDS] = {0}, wide = 0;
    int waited = 0;
    for (uint64_t at = 0; at + 16 <= bytes; at += 16) {
        const uint64_t low = sb_load_u64(code + at), high = sb_load_u64(code + at + 8);
        const unsigned opcode = low & 0xfff, always = (low >> 12 & 0xf) == 7;
        const unsigned scoreboard = high >> 46 & 7, waits = high >> 52 & 0x3f;
        const int ends = (opcode == BRA || opcode == EXIT || opcode == RET) && always;
        for (unsigned i = 0; i < SCOREBOARDS; i++)
            if (ends || waits >> i & 1)
                loads[i] = held[i] = 0;
        out->either += opcode == LD;
        if (opcode == ACQBULK && !waited) {
            waited = 1;
            out->early = wide;
        }
        if (opcode != LDG && opcode != LDG256 && opcode != LDGSTS)
            continue;
        const int width = width_of(opcode, high, target);
        if (width < 0 || (opcode != LDGSTS && scoreboard >= SCOREBOARDS))
            return "a load is not as they are known";
        wide += width >= 4;
        if (opcode == LDGSTS) {
            out->copy[width - 2]++;
            continue;
        }
        out->load[width]++;
        loads[scoreboard]++;
        held[scoreboard] += UINT64_C(1) << width;
        uint64_t n = 0, sum = 0;
        for (unsigned i = 0; i < SCOREBOARDS; i++) {
            n += loads[i];
            sum += held[i];
        }
        out->most = n > out->most ? n : out->most;
        out->most_bytes = sum > out->most_bytes ? sum : out->most_bytes;
    }
    return NULL;
}

static const char *print_loads(const char *kernel, const unsigned char *code, uint64_t bytes,
                               unsigned target)
{
    load_counts n = {0};
    const char *why = count_loads(code, bytes, target, &n);
    if (why)
        return why;
    printf("%s", SB_SHOW(kernel));
    for (unsigned i = 0; i < WIDTHS; i++)
        printf(" %" PRIu64, n.load[i]);
    for (unsigned i = 0; i < COPIES; i++)
        printf(" %" PRIu64, n.copy[i]);
    printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", n.either, n.most, n.most_bytes,
           n.early);
    return NULL;
}

/* --- files ------------------------------------------------------------------------------------ */
/* The data to print for the code of a target (0: the whole cubin): the opcodes, or the loads. */
typedef struct wanted {
    unsigned target;
    int loads;
} wanted;

typedef struct section {
    const char *name;
    uint64_t at, bytes;
} section;

/* Gets section `index` of a file. Returns the reason if it is invalid, otherwise NULL. `*more` says
 * whether another section follows. */
static const char *section_of(const image *file, unsigned index, section *out, int *more)
{
    uint64_t table = sb_load_u64(file->bytes + 0x28);
    unsigned each = sb_load_u16(file->bytes + 0x3a), sections = sb_load_u16(file->bytes + 0x3c);
    unsigned names_in = sb_load_u16(file->bytes + 0x3e);
    if (each != SECTION || !inside(file, table, (uint64_t)each * sections) || names_in >= sections)
        return "the table of sections is damaged";
    const unsigned char *entry = file->bytes + table + (uint64_t)index * SECTION;
    uint64_t strings = sb_load_u64(file->bytes + table + (uint64_t)names_in * SECTION + 24);
    out->name = name_at(file, strings, sb_load_u32(entry));
    out->at = sb_load_u64(entry + 24);
    out->bytes = sb_load_u64(entry + 32);
    *more = index + 1 < sections;
    return out->name ? NULL : "the name of a section is damaged";
}

static int is_elf(const image *file)
{
    return inside(file, 0, HEADER) && memcmp(file->bytes, "\177ELF\2\1", 6) == 0;
}

static const char *print_cubin(const image *file, const wanted *want)
{
    int more = 1;
    for (unsigned i = 0; more; i++) {
        section code;
        const char *why = section_of(file, i, &code, &more);
        if (why)
            return why;
        if (strncmp(code.name, ".text.", 6) != 0)
            continue;
        if (!inside(file, code.at, code.bytes) || code.bytes % 16)
            return "the code of a kernel is damaged";
        const unsigned char *at = file->bytes + code.at;
        if (want->loads)
            why = print_loads(code.name + 6, at, code.bytes, want->target);
        else
            print_counts(code.name + 6, at, code.bytes);
        if (why)
            return why;
    }
    return NULL;
}

/* Prints the cubins of a target in a section .nv_fatbin. The section has a header with its own size
 * in bytes 6 and 7 and the size of all entries in 8 to 15. Each entry has its kind in two bytes,
 * the size of its header in 4 to 7, the size of its contents in 8 to 15, and the target in 28 to
 * 31. */
static const char *print_entries(const image *all, const wanted *want, int *found)
{
    uint64_t at = 0;
    while (at + 16 <= all->size) {
        if (sb_load_u32(all->bytes + at) != 0xba55ed50)
            return "the code for devices is damaged";
        uint64_t bytes = sb_load_u64(all->bytes + at + 8), end;
        at += sb_load_u16(all->bytes + at + 6);
        if (!inside(all, at, bytes))
            return "the code for devices is damaged";
        for (end = at + bytes; at < end;) {
            if (end - at < 64 || !inside(all, at, sb_load_u32(all->bytes + at + 4)))
                return "the code for devices is damaged";
            image cubin = {all->bytes + at + sb_load_u32(all->bytes + at + 4),
                           sb_load_u64(all->bytes + at + 8)};
            if (!inside(all, (uint64_t)(cubin.bytes - all->bytes), cubin.size) || !cubin.size)
                return "the code for devices is damaged";
            if (sb_load_u16(all->bytes + at) == 2 &&
                sb_load_u32(all->bytes + at + 28) == want->target) {
                const char *why =
                    is_elf(&cubin) ? print_cubin(&cubin, want) : "its code is compressed";
                if (why)
                    return why;
                *found = 1;
            }
            at = (uint64_t)(cubin.bytes - all->bytes) + cubin.size;
        }
        at = (at + 7) / 8 * 8;
    }
    return NULL;
}

static const char *print_object(const image *file, const wanted *want)
{
    int more = 1, found = 0;
    for (unsigned i = 0; more; i++) {
        section devices;
        const char *why = section_of(file, i, &devices, &more);
        if (!why && strcmp(devices.name, ".nv_fatbin") == 0) {
            image all = {file->bytes + devices.at, devices.bytes};
            why = inside(file, devices.at, devices.bytes) ? print_entries(&all, want, &found)
                                                          : "the code for devices is damaged";
        }
        if (why)
            return why;
    }
    return found ? NULL : "it has no code for this target";
}

int main(int count, char **words)
{
    image file = {NULL, 0};
    const int loads = count == 4 && strcmp(words[1], "--loads") == 0;
    if (count != 2 && count != 3 && !loads) {
        fprintf(stderr, "usage: cubin_opcodes FILE | [--loads] OBJECT SM\n");
        return 2;
    }
    const char *path = words[1 + loads];
    const wanted want = {count == 2 ? 0 : (unsigned)atoi(words[2 + loads]), loads};
    int status = read_image(path, &file);
    if (!status) {
        const char *why = !is_elf(&file) ? "no ELF file of 64 bits, little-endian"
                          : count == 2   ? print_cubin(&file, &want)
                                         : print_object(&file, &want);
        status = why ? wrong(path, why) : 0;
    }
    free(file.bytes);
    return status;
}
