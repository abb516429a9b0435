/* test_dump_arrays.c - arrays in files of other programs: every value of the fixtures that these
 * programs wrote, refusals, and the proof that no hostile code runs. */
#include "tests/lib/suite.h"
#include "tests/unit/dump_case.h"

#include <minizip/zip.h>
#include <zlib.h>

#include "ref/base/mem.h"

#define GOLDEN "golden/dumps/arrays/"

static const dump_given three = {.ids = {1, 5, 3, NO_ID, NO_ID}, .vocab_size = 8};
static const dump_given nothing = {.vocab_size = 8};

static scratch_path scratch_map(scratch_path dir, const char *text)
{
    scratch_write_json(dir.text, "map.json", text);
    return scratch_join(dir.text, "map.json");
}

/* --- fixtures --------------------------------------------------------------------------------- */

static void check_fixture(const char *path, const dump_given *given, size_t steps, size_t rows,
                          size_t taps, size_t unknown, const char *first)
{
    dump_seen seen = {.check = 1};
    dump_expect(path, given, &seen);
    if (seen.steps != steps || seen.rows != rows || seen.taps != taps || seen.unknown != unknown ||
        strcmp(seen.first_unknown, first) != 0)
        fail_msg("%s: %zu steps, %zu rows, %zu taps, %zu unknown, the first %s", path, seen.steps,
                 seen.rows, seen.taps, seen.unknown, seen.first_unknown);
}

TEST(test_numpy)
{
    scratch_path dir = scratch_new();
    scratch_path map = scratch_map(
        dir, "{'hidden1': {'tap': 'layers.1.output', 'dtype': 'BF16'}, 'mask': '', 'x*y': 'norm'}");
    dump_given mapped = {.map = map.text};
    check_fixture(GOLDEN "npy", &three, 1, 3, 5, 2, "hidden1");
    check_fixture(GOLDEN "npy", &mapped, 1, 3, 6, 0, "");
    check_fixture(GOLDEN "alone.npy", &three, 1, 3, 1, 0, "");
    check_fixture(GOLDEN "arrays.npz", &nothing, 1, 3, 6, 0, "");
    check_fixture(GOLDEN "packed.npz", &three, 1, 3, 6, 0, "");
    dump_refuse(GOLDEN "packed.npz", &nothing, SB_ERR_USAGE, "contains no token ids");
    scratch_remove(dir.text);
}

TEST(test_torch)
{
    check_fixture(GOLDEN "nested.pt", &nothing, 1, 3, 6, 2, "notes.empty");
    check_fixture(GOLDEN "nested.pt", &three, 1, 3, 6, 2, "notes.empty");
    check_fixture(GOLDEN "protocol4.pt", &three, 1, 3, 6, 0, "");
    check_fixture(GOLDEN "alone.pt", &three, 1, 3, 1, 0, "");
}

TEST(test_safetensors)
{
    scratch_path dir = scratch_new();
    scratch_path map =
        scratch_map(dir, "{'Qwen3_5MoeForCausalLM.model.layers.*_outputs': 'layers.*'}");
    dump_given mapped = {.map = map.text, .vocab_size = 384};
    dump_seen seen = {.check = 0};
    check_fixture(GOLDEN "arrays.safetensors", &nothing, 1, 3, 6, 0, "");
    dump_refuse(GOLDEN "hf", &three, SB_ERR_INPUT, "none of its 6 arrays");
    dump_refuse(GOLDEN "hf", &mapped, SB_ERR_USAGE, "contains no token ids");
    map =
        scratch_map(dir, "{'*.lm_head_outputs': 'logits', '*_inputs_kwargs_input_ids': 'tokens',"
                         " '*.input_layernorm_outputs': '',"
                         " 'Qwen3_5MoeForCausalLM.model.layers.*.post_attention_layernorm_outputs'"
                         ": 'layers.*.post_attention_layernorm'}");
    dump_expect(GOLDEN "hf", &mapped, &seen);
    assert_int_equal(seen.rows, 4);
    assert_int_equal(seen.taps, 2);
    assert_int_equal(seen.unknown, 2); /* embed_tokens and norm */
    assert_int_equal(seen.last_id, 4);
    scratch_remove(dir.text);
}

TEST(test_sglang)
{
    scratch_path dir = scratch_new();
    scratch_path map =
        scratch_map(dir, "{'model.embed_tokens': 'embed', 'model.layers.*': 'layers.*.output',"
                         " 'model.norm': 'norm', 'logits_processor': 'logits', 'model': ''}");
    dump_given mapped = {.map = map.text, .vocab_size = 8};
    dump_given four = {.ids = {1, 5, 3, 7, NO_ID, NO_ID}, .vocab_size = 8};
    dump_seen seen = {.check = 1};
    check_fixture(GOLDEN "sglang", &nothing, 2, 4, 8, 0, "");
    check_fixture(GOLDEN "sglang", &four, 2, 4, 8, 0, "");
    dump_refuse(GOLDEN "sglang", &three, SB_ERR_INPUT, "has 4 rows, but 3 token ids are given");
    four.ids[3] = 6;
    dump_refuse(GOLDEN "sglang", &four, SB_ERR_INPUT, "element 0 is 7, but the given token is 6");
    /* the logits of a pass are in the next file; those of the last pass are in no file */
    check_fixture(GOLDEN "sglang-hook", &mapped, 3, 5, 14, 3, "model.forward_batch_info.seq_lens");
    dump_expect(GOLDEN "sglang-hook", &mapped, &seen);
    assert_int_equal(seen.decodes, 2);
    assert_int_equal(seen.last_id, 2);
    scratch_remove(dir.text);
}

/* --- refusals * ------------------------------------------------------------------------------- */

TEST(test_hostile)
{
    static const struct {
        const char *file, *fragment;
    } cases[] = {
        {"bad-system.pt", "its pickle names \"posix.system\""},
        {"bad-eval.pt", "its pickle names \"builtins.eval\""},
        {"bad-object.pt", "its pickle names \"types.SimpleNamespace\""},
        {"bad-instance.pt", "opcode 0x69 (INST)"},
        {"bad-legacy.pt", "bare pickle"},
        {"bad-negated.pt", "resolve_neg()"},
        {"bad-bounds.pt", "reaches beyond the 96 bytes"},
        {"bad-offset.pt", "begins after the end of its storage"},
        {"bad-repeated.pt", "repeats its 1 elements"},
        {"bad-overflow.pt", "too large"},
        {"bad-numel.pt", "a storage whose size differs"},
        {"bad-key.pt", "a storage that is missing in the archive"},
        {"bad-deep.pt", "nested deeper than 32"},
        {"bad-self.pt", "nested deeper than 32"},
        {"bad-bomb.pt", "more than 2^18 values"},
        {"bad-memo.pt", "under a number out of range"},
        {"bad-underflow.pt", "pops from an empty stack"},
        {"bad-overlap.npz", "overlaps another member"},
        {"bad-twice.npz", "occurs twice"},
        {"bad-objects.npy", "Python objects"},
        {"bad-order.npy", "the other byte order"},
        {"bad-fields.npy", "several fields"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[128];
        snprintf(path, sizeof path, GOLDEN "%s", cases[i].file);
        dump_refuse(path, &three, SB_ERR_INPUT, cases[i].fragment);
    }
    /* the pickles would create this file if they were executed */
    assert_int_not_equal(access("executed-by-a-pickle", F_OK), 0);
}

/* A file with some bytes changed must be refused. */
static void refuse_changed(const char *golden, size_t at, const char *bytes, size_t n,
                           const char *suffix, const char *fragment)
{
    scratch_path dir = scratch_new();
    char name[32];
    size_t size;
    unsigned char *file = dump_bytes(golden, &size);
    assert_true(at + n <= size);
    memcpy(file + at, bytes, n);
    snprintf(name, sizeof name, "changed%s", suffix);
    scratch_path path = scratch_join(dir.text, name);
    scratch_write(path.text, file, size);
    dump_refuse(path.text, &three, SB_ERR_INPUT, fragment);
    free(file);
    scratch_remove(dir.text);
}

/* The place of occurrence number `which` (from 0) of these n bytes. */
static size_t find(const char *golden, const char *bytes, size_t n, unsigned which)
{
    size_t size, at = 0;
    unsigned char *file = dump_bytes(golden, &size);
    for (;; at++) {
        assert_true(at + n <= size);
        if (memcmp(file + at, bytes, n) == 0 && which-- == 0)
            break;
    }
    free(file);
    return at;
}

TEST(test_archives)
{
    static const char central[] = "PK\x01\x02";
    const char *npz = GOLDEN "arrays.npz", *packed = GOLDEN "packed.npz";
    size_t first = find(npz, central, 4, 0), second = find(npz, central, 4, 1);
    size_t end = find(npz, "PK\x05\x06", 4, 0), deflated = find(packed, central, 4, 0);
    refuse_changed(npz, 0, "XY", 2, ".npz", "does not begin like a ZIP archive");
    refuse_changed(npz, end, "XY", 2, ".npz", "does not end with a ZIP directory");
    refuse_changed(npz, end + 20, "\x01", 1, ".npz", "its directory is damaged");
    refuse_changed(npz, end + 10, "\x06\x00", 2, ".npz", "its directory is damaged");
    refuse_changed(npz, first + 8, "\x01", 1, ".npz", "is encrypted");
    refuse_changed(npz, first + 10, "\x0c", 1, ".npz", "a compression method other than deflate");
    refuse_changed(npz, first + 24, "\x01", 1, ".npz",
                   "is stored uncompressed but has two different sizes");
    refuse_changed(npz, first + 16, "\x01", 1, ".npz", "is missing at the offset in the directory");
    refuse_changed(npz, second + 42, "\0\0\0\0", 4, ".npz",
                   "is missing at the offset in the directory");
    refuse_changed(npz, first + 46, "\0", 1, ".npz", "with a zero byte");
    refuse_changed(packed, deflated + 24, "\xff\xff\xff\x7f", 4, ".npz",
                   "a larger unpacked size than deflate");
    /* the data: four bytes of the first array of each archive */
    refuse_changed(npz, find(npz, "\x93NUMPY", 6, 0) + 128, "????", 4, ".npz", "checksum");
    refuse_changed(packed, 60, "????", 4, ".npz", "does not unpack to its declared size");
}

TEST(test_headers)
{
    static const char good[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 8), }";
    static const struct {
        const char *header, *fragment;
    } cases[] = {
        {good, NULL},
        {"{\"shape\":(3,8,),\"descr\":\"<f4\",\"fortran_order\":False}", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 9)}",
         "reaches beyond the 96 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 7)}",
         "96 bytes of data, expected 84"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (24)}", "expected a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, -8)}", "whole numbers"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,3,8)}", "8 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 8)}", "expected a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 8 8)}", "not a tuple of numbers"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 8)}", "neither True nor False"},
        {"{'descr': '<f4', 'fortran_order': False}", "lacks descr"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (3, 8)}", "each once"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 8), 'x': 1}", "keys other than"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 8)} 1",
         "unexpected text follows its header"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (3, 4)}", "expected numbers"},
        {"{'descr': '|V4', 'fortran_order': False, 'shape': (3, 8)}", "expected numbers"},
        {"{'descr': '<b1', 'fortran_order': False, 'shape': (3, 32)}", "is BOOL, expected F64"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (3, 16)}", "--map can declare"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}",
         "too large"},
        {"['descr']", "not a dictionary"},
    };
    scratch_path dir = scratch_new(), path = scratch_join(dir.text, "logits.npy");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[512] = "\x93NUMPY\x01";
        size_t n = strlen(cases[i].header);
        sb_store_u16(bytes + 8, (uint16_t)n);
        memcpy(bytes + 10, cases[i].header, n);
        scratch_write(path.text, bytes, 10 + n + 96);
        dump_seen seen = {.check = 0};
        if (!cases[i].fragment)
            dump_expect(path.text, &three, &seen);
        else
            dump_refuse(path.text, &three, SB_ERR_INPUT, cases[i].fragment);
    }
    refuse_changed(GOLDEN "alone.npy", 6, "\x04", 1, ".npy", "an unknown version");
    refuse_changed(GOLDEN "alone.npy", 8, "\xff", 1, ".npy", "reaches beyond the end of the file");
    scratch_remove(dir.text);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Writes a .npy of binary32, or of a type of 4-byte integers, with ascending elements. */
static void write_npy(scratch_path dir, const char *name, const char *descr, const char *shape,
                      size_t elements)
{
    unsigned char *bytes = calloc(1, 256 + 4 * elements);
    assert_non_null(bytes);
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    int n = snprintf((char *)bytes + 10, 200,
                     "{'descr': '%s', 'fortran_order': False, 'shape': %s}", descr, shape);
    sb_store_u16(bytes + 8, (uint16_t)n);
    for (size_t i = 0; i < elements; i++)
        sb_store_u32(bytes + 10 + n + 4 * i,
                     descr[1] == 'f' ? sb_bits_f32(0.25f * (float)i - 1.0f) : (uint32_t)i);
    scratch_write(scratch_join(dir.text, name).text, bytes, 10 + (size_t)n + 4 * elements);
    free(bytes);
}

static const dump_given two_by_two = {.ids = {1, 2, NO_ID, 3, 4, NO_ID, NO_ID}, .vocab_size = 8};
static const dump_given two_by_three = {.ids = {1, 2, 3, NO_ID, 4, 5, 6, NO_ID, NO_ID},
                                        .vocab_size = 8};
static const dump_given uneven = {.ids = {1, NO_ID, 3, 4, 5, NO_ID, NO_ID}, .vocab_size = 8};

/* One array in a folder, and the refusal; "" if it is accepted. */
TEST(test_shapes)
{
    static const struct {
        const char *name, *descr, *shape;
        size_t elements;
        const dump_given *given;
        const char *fragment;
    } cases[] = {
        {"logits", "<f4", "(3, 8)", 24, &three, ""},
        {"logits", "<f4", "(1, 3, 8)", 24, &three, ""},
        {"logits", "<f4", "(3, 2, 4)", 24, &three, ""},
        {"logits", "<f4", "(8,)", 8, &three, ""},
        {"logits", "<f4", "(1, 8)", 8, &three, ""},
        {"logits", "<f4", "(1, 1, 8)", 8, &three, ""},
        {"logits", "<f4", "(2, 8)", 16, &three, "has the shape [2, 8], expected 3 on axis 0"},
        {"logits", "<f4", "(3, 7)", 21, &three, "has 7 columns, expected vocab_size 8"},
        {"logits", "<i4", "(3, 8)", 24, &three, "is I32, expected F64"},
        {"logits", "<f4", "(2, 2, 8)", 32, &two_by_two, ""},
        {"logits", "<f4", "(4, 8)", 32, &two_by_two, ""},
        {"logits", "<f4", "(2, 8)", 16, &two_by_two, ""},
        {"logits", "<f4", "(4, 8)", 32, &uneven, ""},
        {"logits", "<f4", "(2, 2, 8)", 32, &uneven, "has 16 columns"},
        {"embed", "<f4", "(8,)", 8, &three, "has the shape [8], expected 3"},
        {"embed", "<f4", "(3,)", 3, &three, ""},
        {"embed", "<f4", "()", 1, &three, "has the shape [], expected 3"},
        {"embed", "<f4", "(3, 0)", 0, &three, "has 0 columns"},
        {"layers.0.mlp.router_ids", "<i4", "(3, 2)", 6, &three, ""},
        {"layers.0.mlp.router_ids", "<f4", "(3, 2)", 6, &three, "is F32, expected integers"},
        {"mtp.embed", "<f4", "(2, 4)", 8, &three, ""},
        {"mtp.embed", "<f4", "(3, 4)", 12, &three, "expected 2 on axis 0: one for each entry"},
        {"mtp.embed", "<f4", "(2, 2, 4)", 16, &two_by_three, ""},
        {"mtp.embed", "<f4", "(2, 3, 4)", 24, &two_by_three, "expected 4 on axis 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        scratch_path dir = scratch_new();
        dump_seen seen = {.check = cases[i].elements >= 24}; /* all rows are given, in order */
        snprintf(name, sizeof name, "%s.npy", cases[i].name);
        write_npy(dir, name, cases[i].descr, cases[i].shape, cases[i].elements);
        if (cases[i].fragment[0])
            dump_refuse(dir.text, cases[i].given, SB_ERR_INPUT, cases[i].fragment);
        else
            dump_expect(dir.text, cases[i].given, &seen);
        if (!cases[i].fragment[0] && seen.taps == 0)
            fail_msg("case %zu was read, and not handed on", i);
        scratch_remove(dir.text);
    }
}

TEST(test_ids)
{
    scratch_path dir = scratch_new();
    dump_given large = three;
    dump_seen seen = {.check = 0};
    write_npy(dir, "logits.npy", "<f4", "(3, 8)", 24);
    large.ids[2] = 8;
    dump_refuse(dir.text, &large, SB_ERR_INPUT, "token 2 has the id 8, expected an id below");
    write_npy(dir, "tokens.npy", "<i4", "(3,)", 3); /* 0, 1, 2 */
    dump_expect(dir.text, &nothing, &seen);
    assert_int_equal(seen.last_id, 2);
    dump_refuse(dir.text, &three, SB_ERR_INPUT, "element 0 is 0, but the given token is 1");
    dump_refuse(dir.text, &(dump_given){.vocab_size = 9}, SB_ERR_INPUT, "expected vocab_size 9");
    write_npy(dir, "positions.npy", "<i4", "(3,)", 3);
    dump_expect(dir.text, &nothing, &seen);
    write_npy(dir, "positions.npy", "<i4", "(1, 2)", 2);
    dump_refuse(dir.text, &nothing, SB_ERR_INPUT, "expected one of 3 rows");
    write_npy(dir, "token_ids.npy", "<i4", "(3,)", 3);
    dump_refuse(dir.text, &nothing, SB_ERR_INPUT, "the same values of one call");
    scratch_remove(dir.text);
}

TEST(test_map)
{
    static const struct {
        const char *map, *fragment;
    } cases[] = {
        {"{'a.*': 'layers.*.output'}", ""},
        {"{'a.0': 'embed', 'a.*': 'layers.*.output'}", ""},
        {"{'a.*': 'layers.*.output', '*.0': 'embed'}", "\"a.*\" and \"*.0\" both match"},
        {"{'a*': 'layers.*.output', 'a.*': 'layers.*.output'}", ""}, /* layers.0, not layers..0 */
        {"{'a.*': 'layers.*.output', 'a*': 'layers.*.output'}", ""},
        {"{'a.*': 'layers.*.output', '*.0': 'embed', 'a.0*': 'norm'}", ""},
        {"{'a.0*': 'norm', 'a.*': 'layers.*.output', '*.0': 'embed'}", ""},
        {"{'a.*': 'layers.*.outputs'}", "expected a tap"},
        {"{'a.*': 'layers.7.*'}", "none of its 1 arrays"},
        {"{'a.*': 'layers.x.*'}", "expected a tap"},
        {"{'a.0': 'layers.*.output'}", "none in the tap if the name has none"},
        {"{'a.*.*': 'layers.*.output'}", "at most one *"},
        {"{'a.0': 7}", "is 7"},
        {"{'a.0': {'tap': 'embed'}}", "dtype"},
        {"{'a.0': {'tap': 'embed', 'dtype': 'bf16'}}", "BF16"},
        {"{'a.0': {'tap': 'embed', 'dtype': 'BF16'}}", "is F32, but the map says BF16"},
        {"['a.0']", "is not an object"},
        {"{'b': 'embed'}", "none of its 1 arrays"},
        {"{'a.0': 'embed', 'a.0': 'norm'}", "duplicate"},
    };
    scratch_path dir = scratch_new(), files = scratch_join(dir.text, "f");
    assert_int_equal(mkdir(files.text, 0777), 0);
    write_npy(files, "a.0.npy", "<f4", "(3, 4)", 12);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_path map = scratch_map(dir, cases[i].map);
        dump_given given = three;
        dump_seen seen = {.check = 0};
        given.map = map.text;
        if (cases[i].fragment[0])
            dump_refuse(files.text, &given, SB_ERR_INPUT, cases[i].fragment);
        else
            dump_expect(files.text, &given, &seen);
    }
    scratch_remove(dir.text);
}

/* A call longer than a step may be; the file is sparse. */
TEST(test_large)
{
    static const char header[] = "{'descr': '<f2', 'fortran_order': False, 'shape': (450, 65536)}";
    scratch_path dir = scratch_new(), path = scratch_join(dir.text, "embed.npy");
    unsigned char bytes[128] = "\x93NUMPY\x01";
    uint32_t ids[450] = {1};
    const uint32_t *const all[] = {ids};
    size_t n = sizeof header - 1, count = 450;
    sb_dump_options o = {.ids = all, .id_count = &count, .sequence_count = 1};
    sb_store_u16(bytes + 8, (uint16_t)n);
    memcpy(bytes + 10, header, n);
    scratch_write(path.text, bytes, 10 + n);
    assert_int_equal(truncate(path.text, (off_t)(10 + n) + 450 * 131072), 0);
    sb_dump *dump = NULL;
    sb_error err = {{0}};
    check_status("open", sb_dump_open(path.text, &o, &dump, &err), &err, SB_OK, "");
    dump_seen seen = {.check = 0};
    check_status("play", sb_dump_play(dump, dump_take, &seen, &err), &err, SB_OK, "");
    sb_dump_close(dump);
    assert_int_equal(seen.rows, 450);
    assert_int_equal(seen.steps, 2); /* 256 + 194 */
    assert_int_equal(seen.most_rows, 256);
    scratch_remove(dir.text);
}

/* Writes a compressed archive of zeros, in arrays of three rows named "embed" and "norm". */
static void write_packed(const char *path, size_t arrays, unsigned columns)
{
    static const char *const names[] = {"embed.npy", "norm.npy"};
    const size_t size = 10 + 118 + (size_t)12 * columns;
    unsigned char *bytes = calloc(1, size);
    zipFile zip = zipOpen64(path, APPEND_STATUS_CREATE);
    assert_true(bytes && zip);
    memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(bytes + 10, ' ', 118);
    int n = snprintf((char *)bytes + 10, 118,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (3, %u)}", columns);
    bytes[10 + n] = ' ';
    for (size_t i = 0; i < arrays; i++) {
        assert_int_equal(zipOpenNewFileInZip64(zip, names[i], NULL, NULL, 0, NULL, 0, NULL,
                                               Z_DEFLATED, Z_BEST_COMPRESSION, 0),
                         ZIP_OK);
        assert_int_equal(zipWriteInFileInZip(zip, bytes, (unsigned)size), ZIP_OK);
        assert_int_equal(zipCloseFileInZip(zip), ZIP_OK);
    }
    assert_int_equal(zipClose(zip, NULL), ZIP_OK);
    free(bytes);
}

/* J-15: "All compressed members together may unpack to at most 8 times the archive and 1 MiB" - an
 * archive of zeros has only a few kB, so that the limit is about 1 MiB. */
TEST(test_unpacked)
{
    scratch_path dir = scratch_new(), path = scratch_join(dir.text, "packed.npz");
    static const char *const words =
        "unpacks, together with the others, to more than 8 times the size of the archive";
    dump_seen seen = {.check = 0};
    write_packed(path.text, 1, 87000); /* 1 044 128 of 1 048 576 bytes and 8 times the archive */
    dump_expect(path.text, &three, &seen);
    assert_int_equal(seen.taps, 1);
    write_packed(path.text, 1, 90000);
    dump_refuse(path.text, &three, SB_ERR_INPUT, words);
    write_packed(path.text, 2, 40000);
    dump_expect(path.text, &three, &seen);
    write_packed(path.text, 2, 87000);
    dump_refuse(path.text, &three, SB_ERR_INPUT, words);
    scratch_remove(dir.text);
}

/* --- ranks ------------------------------------------------------------------------------------ */

/* Plays a dump of two ranks; the second has this file of the fixture as its embedding. */
static sb_status play_ranks(const char *second, sb_error *err)
{
    scratch_path dir = scratch_new();
    const char *from[] = {"step=0___rank=0___dump_index=1___name=input_ids",
                          "step=0___rank=0___dump_index=3___name=embed",
                          "step=0___rank=0___dump_index=1___name=input_ids", second};
    dump_seen seen = {.check = 1};
    for (unsigned i = 0; i < 4; i++) {
        char path[256], to[256];
        size_t size;
        snprintf(path, sizeof path, GOLDEN "sglang/%s___recompute_status=disabled.pt", from[i]);
        snprintf(to, sizeof to, "step=0___rank=%u___name=%s.pt", i / 2,
                 i % 2 ? "embed" : "input_ids");
        unsigned char *bytes = dump_bytes(path, &size);
        scratch_write(scratch_join(dir.text, to).text, bytes, size);
        free(bytes);
    }
    sb_status status = dump_play(dir.text, &nothing, &seen, err);
    scratch_remove(dir.text);
    return status;
}

TEST(test_ranks)
{
    check_fixture(GOLDEN "sglang-whole", &three, 1, 3, 1, 0, "");
    dump_refuse(GOLDEN "bad-sglang-cut", &three, SB_ERR_INPUT, "one rank's part of an array");
    dump_refuse(GOLDEN "bad-sglang-old", &three, SB_ERR_INPUT, "one rank's part of an array");
    dump_refuse(GOLDEN "bad-sglang-axis", &three, SB_ERR_INPUT, "not an axis of tokens");
    sb_error err = {{0}};
    check_status("two ranks that agree",
                 play_ranks("step=0___rank=0___dump_index=3___name=embed", &err), &err, SB_OK, "");
    check_status("two that do not", play_ranks("step=1___rank=0___dump_index=9___name=embed", &err),
                 &err, SB_ERR_INPUT, "\"embed\" differs from the first rank's array");
}

/* Every file of a folder belongs to at most one kind. Returns the number of files that belong to
 * one. */
static size_t one_kind_each(const char *folder)
{
    DIR *dir = opendir(folder);
    size_t known = 0;
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char path[600];
        size_t kinds = 0;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        for (size_t i = 0; i < sb_dump_count() && e->d_name[0] != '.'; i++)
            kinds += sb_dump_at(i)->is(path) != 0;
        if (kinds > 1)
            fail_msg("%s is of %zu kinds", path, kinds);
        known += kinds;
    }
    closedir(dir);
    return known;
}

TEST(test_kinds)
{
    assert_true(one_kind_each("golden/dumps/arrays") >= 31);
    assert_true(one_kind_each("golden/dumps") >= 8);
    assert_null(sb_dump_find("golden/trace/T1-f32"));
    assert_null(sb_dump_find("no such file.npy"));
}

/* Each allocation fails in turn: the result is an error that says so, or success. */
TEST(test_memory)
{
    static const char *const files[][2] = {
        {"npy", "npy"},         {"packed.npz", "npz"},
        {"nested.pt", "torch"}, {"arrays.safetensors", "safetensors"},
        {"sglang", "sglang"},   {"sglang-hook", "sglang-hook"}};
    scratch_path dir = scratch_new();
    scratch_path map = scratch_map(dir, "{'model.layers.*': 'layers.*.output'}");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        dump_given given = i == 1 ? three : nothing; /* this archive has no ids */
        char path[128];
        sb_status status = SB_ERR_MEMORY;
        given.as = files[i][1];
        given.map = map.text;
        snprintf(path, sizeof path, GOLDEN "%s", files[i][0]);
        for (unsigned long n = 1; status; n++) {
            dump_seen seen = {.check = 0};
            sb_error err = {{0}};
            sb_alloc_fail_at(n);
            status = dump_play(path, &given, &seen, &err);
            sb_alloc_fail_at(0);
            assert_true(n < 10000);
            if (status && status != SB_ERR_MEMORY)
                fail_msg("%s: allocation %lu fails, status %d: %s", path, n, (int)status, err.text);
        }
    }
    scratch_remove(dir.text);
}
