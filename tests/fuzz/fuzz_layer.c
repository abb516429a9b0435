/* fuzz_layer.c - the tensors of one quantized layer with changes: the layer is refused in one line,
 * or all of its rows can be read under every law, without reading outside its tensors.
 *
 * An input of up to 18 bytes has the variant (2 bytes), the seed, the request, the experts, the
 * number of changes, and four bytes for each change. For a longer input these are drawn. */
#include "tests/fuzz/fuzz.h"

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/wide.h"
#include "ref/math/law.h"
#include "tests/lib/quant_layer.h"

const char fuzz_name[] = "layer";
unsigned long fuzz_accepted;

enum { MOST_TENSORS = 16, MOST_BYTES = 1 << 14, MOST_PROGRAM = 18 };

/* Changes shape and dtype of a tensor, unless the result does not fit. */
static void reshape(test_tensor *t, sb_dtype dtype, unsigned rank, const uint64_t *shape)
{
    uint64_t size = 0, kept[SB_MAX_RANK] = {0};
    for (unsigned d = 0; d < rank && d < SB_MAX_RANK; d++) {
        kept[d] = shape[d];
        if (kept[d] == 0 || kept[d] > MOST_BYTES)
            return;
    }
    if (rank > SB_MAX_RANK || sb_dtype_bytes(dtype, rank, kept, &size, NULL) || size > MOST_BYTES)
        return;
    unsigned char *bytes = calloc(1, (size_t)size);
    if (!bytes)
        return;
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = t->bytes[i % t->size];
    free(t->bytes);
    t->bytes = bytes;
    t->size = size;
    t->dtype = dtype;
    t->rank = rank;
    memcpy(t->shape, kept, sizeof kept);
}

static void rename_part(test_folder *f, test_tensor *t, quant_spec spec, uint8_t a, uint8_t b)
{
    spec.names = (quant_names)(b % 3);
    const char *name = quant_part_name(&spec, sb_part_suffix((sb_model_part)(a % SB_PART_COUNT)));
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return;
    strcpy(t->name, name);
}

static void change_dimension(test_tensor *t, uint8_t a, uint8_t b)
{
    uint64_t shape[SB_MAX_RANK];
    if (t->rank == 0)
        return;
    memcpy(shape, t->shape, sizeof shape);
    uint64_t *d = &shape[b % t->rank];
    switch (a % 8) {
    case 0:
        *d += 1;
        break;
    case 1:
        *d -= 1;
        break;
    case 2:
        *d *= 2;
        break;
    case 3:
        *d /= 2;
        break;
    case 4:
        *d = shape[b / 16 % t->rank];
        break;
    default:
        *d = 1 + a / 8;
    }
    reshape(t, t->dtype, t->rank, shape);
}

static void change_rank(test_tensor *t, uint8_t a)
{
    uint64_t shape[SB_MAX_RANK + 1] = {1 + a / 8 % 4};
    if (a % 4 == 0 && t->rank > 0)
        reshape(t, t->dtype, t->rank - 1, t->shape + 1);
    else if (a % 4 == 1 && t->rank > 0)
        reshape(t, t->dtype, t->rank - 1, t->shape);
    else if (t->rank < SB_MAX_RANK) {
        memcpy(shape + (a % 4 == 2), t->shape, t->rank * sizeof *shape);
        shape[a % 4 == 2 ? 0 : t->rank] = 1 + a / 8 % 4;
        reshape(t, t->dtype, t->rank + 1, shape);
    }
}

static void change_bytes(test_tensor *t, uint8_t a, uint8_t b)
{
    static const uint32_t words[] = {0,          1,          2,          0xffffffff, 0x80000000,
                                     0x7f800000, 0xff800000, 0x7fc00000, 0xffffff7f, 0x77777777,
                                     0x88888888, 0x7f7f7f7f, 0x80808080, 0x00000100, 0x20};
    for (unsigned i = 0; i < 4; i++) {
        uint32_t word = words[a % (sizeof words / sizeof *words)];
        t->bytes[(b * 4u + i) % t->size] = (unsigned char)(word >> 8 * i);
    }
    if (a >= 250)
        for (uint64_t i = 0; i < t->size; i++)
            t->bytes[i] = (unsigned char)sb_rng_below(b, i, 256);
}

static void change(test_folder *f, const quant_spec *spec, const uint8_t op[4])
{
    static const sb_dtype dtypes[] = {SB_DTYPE_U8,      SB_DTYPE_I8,      SB_DTYPE_F8_E4M3,
                                      SB_DTYPE_F8_E5M2, SB_DTYPE_F8_E8M0, SB_DTYPE_BF16,
                                      SB_DTYPE_F16,     SB_DTYPE_F32,     SB_DTYPE_I32,
                                      SB_DTYPE_U32,     SB_DTYPE_I64,     SB_DTYPE_F64};
    if (f->count == 0)
        return;
    test_tensor *t = &f->tensors[op[1] % f->count];
    switch (op[0] % 8) {
    case 0:
        free(t->bytes);
        *t = f->tensors[--f->count];
        break;
    case 1:
        reshape(t, dtypes[op[2] % (sizeof dtypes / sizeof *dtypes)], t->rank, t->shape);
        break;
    case 2:
        change_dimension(t, op[2], op[3]);
        break;
    case 3:
        change_rank(t, op[2]);
        break;
    case 4:
        rename_part(f, t, *spec, op[2], op[3]);
        break;
    case 5:
        if (f->count < MOST_TENSORS) {
            test_tensor old = *t;
            t = test_folder_add(f, "new", old.dtype, old.rank, old.shape);
            memcpy(t->bytes, old.bytes, (size_t)old.size);
            rename_part(f, t, *spec, op[2], op[3]);
            if (strcmp(t->name, "new") == 0)
                free(f->tensors[--f->count].bytes);
        }
        break;
    default:
        change_bytes(t, op[2], op[3]);
    }
}

static void check_matrix(const sb_matrix *m)
{
    double *wide = malloc(m->cols * sizeof *wide), *scratch = malloc(m->cols * sizeof *scratch);
    float *values = malloc(m->cols * sizeof *values);
    FUZZ_CHECK(m->rows > 0 && m->cols > 0 && wide && scratch && values);
    for (uint32_t n = 0; n < m->rows; n++) {
        sb_matrix_wide(m, n, wide);
        for (unsigned law = 0; law < SB_LAW_COUNT; law++) {
            sb_law_row(m, n, (sb_law)law, scratch, values);
            for (uint32_t k = 0; k < m->cols; k++) {
                int finite = wide[k] - wide[k] == 0;
                FUZZ_CHECK(finite || values[k] - values[k] != 0 || m->quant.factor.value == 0);
                if (finite && law == SB_LAW_exact && m->quant.factor.kind == SB_NO_FACTOR)
                    FUZZ_CHECK(values[k] == (float)wide[k]);
            }
        }
    }
    free(wide);
    free(scratch);
    free(values);
}

static void check_refusal(sb_status status, const sb_error *err)
{
    FUZZ_CHECK(status == SB_ERR_INPUT || status == SB_ERR_UNSUPPORTED);
    FUZZ_CHECK(strstr(err->text, QUANT_NAME) && strlen(err->text) < sizeof err->text - 1);
    FUZZ_CHECK(!strchr(err->text, '\n') && !strchr(err->text, '\r'));
}

static void check_layer(const sb_checkpoint *checkpoint, uint32_t experts, uint64_t rows,
                        uint64_t cols)
{
    sb_found found, again;
    sb_error err = {""};
    sb_status status = sb_detect(checkpoint, QUANT_NAME, experts, rows, cols, &found, &err);
    if (status) {
        check_refusal(status, &err);
        return;
    }
    if (found.container == SB_CONTAINER_COUNT)
        return;
    fuzz_accepted++;
    const sb_matrix *m = &found.matrix;
    if (rows)
        FUZZ_CHECK(m->rows == rows && m->cols == cols);
    FUZZ_CHECK(!sb_detect(checkpoint, QUANT_NAME, experts, m->rows, m->cols, &again, &err));
    FUZZ_CHECK(again.container == found.container);
    status = sb_detect(checkpoint, QUANT_NAME, experts, m->rows, m->cols + 1, &again, &err);
    FUZZ_CHECK(status);
    check_refusal(status, &err);
    check_matrix(m);
    for (uint32_t e = 0; e < experts; e++) {
        sb_matrix part;
        status = sb_found_expert(checkpoint, &found, e, &part, &err);
        if (status)
            check_refusal(status, &err);
        else
            check_matrix(&part);
    }
}

/* Moves the bytes of every tensor into its own block, so that a sanitizer sees a read of one byte
 * too many. */
static void move_bytes(const sb_checkpoint *checkpoint, int out)
{
    for (size_t i = 0; i < sb_checkpoint_count(checkpoint); i++) {
        sb_tensor *t = (sb_tensor *)sb_checkpoint_at(checkpoint, i);
        if (out) {
            unsigned char *own = malloc((size_t)t->bytes);
            FUZZ_CHECK(own);
            memcpy(own, t->data, (size_t)t->bytes);
            t->data = own;
        } else
            free((void *)t->data);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count;
    const quant_spec *variants = quant_variants(&count);
    uint8_t program[MOST_PROGRAM];
    if (size < 6)
        return 0;
    if (size > sizeof program) { /* any file is a valid input */
        uint64_t key = 0xcbf29ce484222325u;
        for (size_t i = 0; i < size; i++)
            key = (key ^ data[i]) * 0x100000001b3u;
        for (size = 0; size < sizeof program; size++)
            program[size] = (uint8_t)sb_rng_below(key, size, 256);
        data = program;
    }
    quant_spec spec = variants[sb_load_u16(data) % count];
    if ((size_t)spec.rows * spec.cols > 5000) {
        int all_rows = spec.block[0] >= spec.rows, all_cols = spec.block[1] >= spec.cols;
        spec.rows = 8;
        spec.cols = 64;
        spec.block[0] = all_rows || spec.block[0] > 8 ? 8 : spec.block[0];
        spec.block[1] = all_cols || spec.block[1] > 64 ? 64 : spec.block[1];
    }
    quant_layer l = quant_layer_draw(&spec, data[2]);
    for (size_t i = 0; i < data[5] % 4u && 10 + 4 * i <= size; i++)
        change(&l.folder, &spec, data + 6 + 4 * i);
    if (l.folder.count > 0) {
        sb_checkpoint *checkpoint = quant_open(&l.folder, "fuzz_layer");
        uint32_t experts = data[4] % 8 < 6 ? spec.experts : data[4] / 8 % 4u;
        int asked = data[3] % 3;
        move_bytes(checkpoint, 1);
        check_layer(checkpoint, experts, asked ? spec.rows : 0, asked ? spec.cols : 0);
        move_bytes(checkpoint, 0);
        sb_checkpoint_close(checkpoint);
    }
    quant_layer_free(&l);
    return 0;
}
