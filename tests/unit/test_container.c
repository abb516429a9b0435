/* test_container.c - strict JSON, dtypes, and every rule of one safetensors file. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include <limits.h>

#include "ref/container/dtype.h"
#include "ref/container/json.h"
#include "ref/container/json_scan.h"
#include "ref/container/safetensors.h"
#include "ref/container/show.h"

/* --- JSON ------------------------------------------------------------------------------------- */

typedef struct json_case {
    const char *text; /* ' for " */
    sb_status status;
    const char *fragment;
} json_case;

static void check_json(const json_case *c)
{
    sb_error err;
    json_t *root = NULL;
    char *text = scratch_json(c->text);
    sb_status status = sb_json_parse(text, strlen(text), "x.json", &root, &err);
    check_status(c->text, status, &err, c->status, c->fragment);
    if (status == SB_OK)
        json_decref(root);
    free(text);
}

TEST(test_json_is_strict)
{
    static const json_case cases[] = {
        {"{}", SB_OK, ""},
        {"[]", SB_OK, ""},
        {" \t\r\n{ 'a' : [ 1 , -2, 3.5e-7, true, null, 'x\\u00e9\\n' ] } \n", SB_OK, ""},
        {"{'a': -0.0, 'b': -0e1, 'c': '-0', 'd': [0]}", SB_OK, ""},
        {"", SB_ERR_INPUT, "x.json:1:"},
        {"  ", SB_ERR_INPUT, "not strict JSON"},
        {"1", SB_ERR_INPUT, "not strict JSON"},
        {"{} {}", SB_ERR_INPUT, "expected the end of the text"},
        {"{}x", SB_ERR_INPUT, "expected the end of the text"},
        {"{'a': 1, 'b': 2, 'a': 1}", SB_ERR_INPUT, "duplicate object key"},
        {"{'z': {'a': 1, 'a': 1}}", SB_ERR_INPUT, "duplicate object key"},
        {"{'a': 1, '\\u0061': 1}", SB_ERR_INPUT, "duplicate object key"},
        {"{'a': 1,}", SB_ERR_INPUT, "x.json:1:9"},
        {"{\n 'a': 1,\n 'b': tru }", SB_ERR_INPUT, "x.json:3:"},
        {"[01]", SB_ERR_INPUT, "not strict JSON"},
        {"[+1]", SB_ERR_INPUT, "not strict JSON"},
        {"[1.]", SB_ERR_INPUT, "not strict JSON"},
        {"[.5]", SB_ERR_INPUT, "not strict JSON"},
        {"[0x10]", SB_ERR_INPUT, "not strict JSON"},
        {"[NaN]", SB_ERR_INPUT, "not strict JSON"},
        {"[Infinity]", SB_ERR_INPUT, "not strict JSON"},
        {"[-Infinity]", SB_ERR_INPUT, "not strict JSON"},
        {"[1e999]", SB_ERR_INPUT, "real number overflow"},
        {"[9223372036854775807]", SB_OK, ""},
        {"[9223372036854775808]", SB_ERR_INPUT, "too big integer"},
        {"[99999999999999999999999999999999]", SB_ERR_INPUT, "too big integer"},
        {"{'a':\n [1, -0]}", SB_ERR_INPUT, "x.json:2:6: not strict JSON: the integer -0"},
        {"[-0", SB_ERR_INPUT, "the integer -0"},
        {"['a", SB_ERR_INPUT, "not strict JSON"},
        {"['a\\", SB_ERR_INPUT, "not strict JSON"},
        {"['a\nb']", SB_ERR_INPUT, "not strict JSON"},
        {"['\\ud800']", SB_ERR_INPUT, "not strict JSON"},
        {"['\\u0000']", SB_ERR_INPUT, "not strict JSON"},
        {"['\xff']", SB_ERR_INPUT, "not strict JSON"},
        {"['\xc0\x80']", SB_ERR_INPUT, "not strict JSON"},
        {"\xef\xbb\xbf{}", SB_ERR_INPUT, "not strict JSON"},
        {"// c\n{}", SB_ERR_INPUT, "not strict JSON"},
        {"{a: 1}", SB_ERR_INPUT, "not strict JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_json(&cases[i]);
}

TEST(test_json_refuses_what_is_behind_a_nul)
{
    sb_error err;
    json_t *root;
    check_status("NUL", sb_json_parse("{}\0{}", 5, "x.json", &root, &err), &err, SB_ERR_INPUT,
                 "not strict JSON");
}

/* n times `open`, then n times `shut` */
static char *nest(size_t n, char open, char shut)
{
    char *text = malloc(2 * n + 1);
    assert_non_null(text);
    memset(text, open, n);
    memset(text + n, shut, n);
    text[2 * n] = '\0';
    return text;
}

TEST(test_json_limits)
{
    sb_error err;
    json_t *root;
    char *text = nest(SB_JSON_MAX_DEPTH, '[', ']');
    check_status("deepest", sb_json_parse(text, strlen(text), "x", &root, &err), &err, SB_OK, "");
    json_decref(root);
    free(text);
    text = nest(SB_JSON_MAX_DEPTH + 1, '[', ']');
    check_status("deeper", sb_json_parse(text, strlen(text), "x", &root, &err), &err, SB_ERR_INPUT,
                 "x:1:65: not strict JSON: nested deeper than 64 levels");
    free(text);
    text = nest(1000000, '[', ']');
    check_status("stack", sb_json_parse(text, strlen(text), "x", &root, &err), &err, SB_ERR_INPUT,
                 "nested deeper");
    free(text);
    /* shallow but many values: refused before jansson allocates */
    size_t n = 2 * (size_t)SB_JSON_MAX_VALUES + 8;
    text = malloc(n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i += 2)
        memcpy(text + i, "0,", 2);
    text[0] = '[';
    text[1] = ' ';
    check_status("many", sb_json_parse(text, n, "x", &root, &err), &err, SB_ERR_INPUT,
                 "more than 16000000 values");
    check_status("large", sb_json_parse(text, (size_t)SB_JSON_MAX_BYTES + 1, "x", &root, &err),
                 &err, SB_ERR_INPUT, "expected at most 100000000");
    free(text);
}

typedef sb_status (*fetch)(const sb_json_object *object, const char *key, sb_error *err);

static sb_status fetch_u64(const sb_json_object *object, const char *key, sb_error *err)
{
    uint64_t value;
    return sb_json_u64(object, key, &value, err);
}

static sb_status fetch_f64(const sb_json_object *object, const char *key, sb_error *err)
{
    double value;
    return sb_json_f64_or(object, key, 1, &value, err);
}

static sb_status fetch_bool(const sb_json_object *object, const char *key, sb_error *err)
{
    int value;
    return sb_json_bool(object, key, &value, err);
}

static sb_status fetch_string(const sb_json_object *object, const char *key, sb_error *err)
{
    const char *value;
    return sb_json_string(object, key, &value, err);
}

TEST(test_json_fields_name_what_they_found)
{
    static const struct {
        fetch get;
        const char *key;
        sb_status status;
        const char *fragment;
    } cases[] = {
        {fetch_u64, "int", SB_OK, ""},
        {fetch_u64, "neg", SB_ERR_INPUT, "x.json: at.neg is -5, expected an unsigned integer"},
        {fetch_u64, "real", SB_ERR_INPUT, "at.real is the real number 1.5, expected an unsigned"},
        {fetch_u64, "round", SB_ERR_INPUT, "at.round is the real number 3, expected an unsigned"},
        {fetch_u64, "text", SB_ERR_INPUT, "at.text is the string \"a\\x0ab\", expected"},
        {fetch_u64, "no", SB_ERR_INPUT, "at.no is absent, expected an unsigned integer"},
        {fetch_u64, "null", SB_ERR_INPUT, "at.null is null, expected an unsigned integer"},
        {fetch_f64, "int", SB_OK, ""},
        {fetch_f64, "real", SB_OK, ""},
        {fetch_f64, "no", SB_OK, ""},
        {fetch_f64, "null", SB_ERR_INPUT, "at.null is null, expected a number"},
        {fetch_f64, "list", SB_ERR_INPUT, "at.list is an array of 2, expected a number"},
        {fetch_bool, "true", SB_OK, ""},
        {fetch_bool, "int", SB_ERR_INPUT, "at.int is 7, expected true or false"},
        {fetch_string, "text", SB_OK, ""},
        {fetch_string, "true", SB_ERR_INPUT, "at.true is true, expected a string"},
        {fetch_string, "obj", SB_ERR_INPUT, "at.obj is an object, expected a string"},
    };
    char *text = scratch_json("{'int':7,'neg':-5,'real':1.5,'round':3.0,'text':'a\\nb','null':null,"
                              "'list':[1,2],'true':true,'obj':{}}");
    sb_error err;
    json_t *root;
    sb_json_object object;
    assert_int_equal(sb_json_parse(text, strlen(text), "x.json", &root, &err), SB_OK);
    assert_int_equal(sb_json_object_at(root, "x.json", "at", &object, &err), SB_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_status(cases[i].key, cases[i].get(&object, cases[i].key, &err), &err, cases[i].status,
                     cases[i].fragment);
    assert_null(sb_json_get(&object, "null"));
    check_status("array",
                 sb_json_object_at(json_object_get(root, "list"), "x.json", "", &object, &err),
                 &err, SB_ERR_INPUT, "the document is an array of 2, expected an object");
    json_decref(root);
    free(text);
}

/* --- dtypes and shown names ------------------------------------------------------------------- */

TEST(test_dtype_bytes)
{
    static const struct {
        const char *dtype;
        unsigned rank;
        uint64_t shape[3];
        uint64_t bytes; /* 0: an error */
        const char *fragment;
    } cases[] = {
        {"F32", 0, {0}, 4, ""},
        {"BOOL", 1, {3}, 3, ""},
        {"F4", 1, {2}, 1, ""},
        {"F4", 2, {3, 5}, 0, "15 elements of 4 bits (F4) do not end at a byte"},
        {"F6_E2M3", 1, {4}, 3, ""},
        {"F6_E3M2", 1, {6}, 0, "6 elements of 6 bits (F6_E3M2) do not end at a byte"},
        {"F6_E3M2", 0, {0}, 0, "1 elements of 6 bits"},
        {"C64", 2, {2, 3}, 48, ""},
        {"BF16", 3, {7, 1, 5}, 70, ""},
        {"U8", 2, {0, 4}, 0, "dimension 0 of shape is 0"},
        {"U8", 2, {4, 0}, 0, "dimension 1 of shape is 0"},
        {"U8", 1, {UINT64_MAX / 8}, UINT64_MAX / 8, ""},
        {"U8", 1, {UINT64_MAX / 8 + 1}, 0, "overflows 64 bits at dimension 0"},
        {"F64", 2, {1ull << 32, 1ull << 32}, 0, "overflows 64 bits at dimension 1"},
        {"U8", 3, {1ull << 32, 1ull << 32, 0}, 0, "overflows 64 bits at dimension 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sb_error err;
        sb_dtype dtype;
        uint64_t bytes = 0;
        assert_true(sb_dtype_find(cases[i].dtype, &dtype));
        sb_status status = sb_dtype_bytes(dtype, cases[i].rank, cases[i].shape, &bytes, &err);
        check_status(cases[i].dtype, status, &err, cases[i].bytes ? SB_OK : SB_ERR_INPUT,
                     cases[i].fragment);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

TEST(test_dtype_names)
{
    sb_dtype dtype;
    for (unsigned i = 0; i < SB_DTYPE_COUNT; i++) {
        assert_true(sb_dtype_find(sb_dtype_name((sb_dtype)i), &dtype));
        assert_int_equal(dtype, i);
        /* the reference writer orders dtypes by alignment, and the widths must follow that order */
        if (i >= SB_DTYPE_U8)
            assert_true(sb_dtype_bits((sb_dtype)i) >= sb_dtype_bits((sb_dtype)(i - 1)));
    }
    assert_false(sb_dtype_find("bf16", &dtype));
    assert_false(sb_dtype_find("", &dtype));
    assert_false(sb_dtype_find("F32 ", &dtype));
    assert_non_null(sb_dtype_refused(SB_DTYPE_F8_E4M3FNUZ));
    assert_null(sb_dtype_refused(SB_DTYPE_F8_E4M3));
}

/* A message contains the path as sb_show() gives it: escaped, and cut if long. */
TEST(test_what_stands_behind_a_path)
{
    static const char *const plain[] = {"a/b", "a\nb"};
    char path[600], message[1200];
    sb_shown room;
    for (size_t n = 0; n < 5; n++) {
        if (n < 2) {
            snprintf(path, sizeof path, "%s", plain[n]);
        } else {
            memset(path, 'x', 100 * n);
            path[100 * n] = '\0';
        }
        snprintf(message, sizeof message, "%s: is no file", sb_show(path, &room));
        assert_string_equal(sb_show_behind(message, path), "is no file");
        snprintf(message, sizeof message, "%s:3:4: not JSON", sb_show(path, &room));
        assert_string_equal(sb_show_behind(message, path), "3:4: not JSON");
        assert_string_equal(sb_show_behind("another: file", path), "another: file");
        snprintf(message, sizeof message, "%s2: is no file", path);
        assert_string_equal(sb_show_behind(message, path), message);
    }
}

TEST(test_shown_names_are_short_and_one_line)
{
    sb_shown room;
    assert_string_equal(sb_show("layers.0.mlp", &room), "layers.0.mlp");
    assert_string_equal(sb_show("a\nb\x7f", &room), "a\\x0ab\\x7f");
    assert_string_equal(sb_show("", &room), "");
    assert_string_equal(sb_show("gr\xc3\xbc\xc3\x9f", &room), "gr\xc3\xbc\xc3\x9f");
    for (size_t n = 1; n < 1200; n++) {
        char text[2500];
        for (size_t i = 0; i < n; i++)
            memcpy(text + 2 * i, i % 50 == 49 ? "\n\t" : "\xc3\xa9", 2);
        text[2 * n] = '\0';
        const char *shown = sb_show(text, &room);
        assert_null(strchr(shown, '\n'));
        assert_true(strlen(shown) < sizeof room.text);
        /* a character is never split: both of its bytes occur equally often */
        size_t heads = 0;
        size_t tails = 0;
        for (const char *c = shown; *c; c++) {
            heads += (unsigned char)*c == 0xc3;
            tails += (unsigned char)*c == 0xa9;
        }
        assert_int_equal(heads, tails);
    }
}

/* --- one file: see test_container_rules.c for the rules of the header ------------------------- */

TEST(test_a_file_is_read_as_it_is)
{
    size_t n;
    sb_error err;
    sb_safetensors file;
    unsigned char *bytes =
        scratch_safetensors("{'b':{'dtype':'U8','shape':[3],'data_offsets':[0,3]},"
                            "'a':{'data_offsets':[3,11],'shape':[2,1],'dtype':'F32'}}   ",
                            11, &n);
    assert_int_equal(sb_safetensors_parse(bytes, n, "f", &file, &err), SB_OK);
    assert_int_equal(file.count, 2);
    assert_string_equal(file.tensors[0].name, "b");
    assert_string_equal(file.tensors[1].name, "a");
    assert_int_equal(file.tensors[1].dtype, SB_DTYPE_F32);
    assert_int_equal(file.tensors[1].rank, 2);
    assert_int_equal(file.tensors[1].shape[0], 2);
    assert_int_equal(file.tensors[1].shape[2], 0);
    assert_int_equal(file.tensors[1].bytes, 8);
    assert_ptr_equal(file.tensors[0].data, bytes + n - 11);
    assert_ptr_equal(file.tensors[1].data, bytes + n - 8); /* unaligned, as it stands */
    sb_safetensors_close(&file);
    free(bytes);
}

/* --- memory for parsing a text * -------------------------------------------------------------- */

static size_t taken, most_taken; /* bytes that jansson holds, and their maximum */

static void *counted(size_t bytes)
{
    size_t *block = malloc(bytes + 16);
    if (!block)
        return NULL;
    *block = bytes;
    taken += bytes + 16;
    most_taken = taken > most_taken ? taken : most_taken;
    return block + 2;
}

static void uncounted(void *block)
{
    size_t *from = block ? (size_t *)block - 2 : NULL;
    taken -= from ? *from + 16 : 0;
    free(from);
}

/* `count` copies of a piece between two ends; %zu in the piece becomes a number of seven digits. */
static char *many(const char *open, const char *piece, size_t count, const char *close, size_t *n)
{
    char *text = malloc(count * (strlen(piece) + 8) + 64);
    assert_non_null(text);
    *n = (size_t)sprintf(text, "%s", open);
    for (size_t i = 0; i < count; i++) {
        const char *number = strstr(piece, "%zu");
        *n += (size_t)sprintf(text + *n, "%s%.*s", i ? "," : "",
                              number ? (int)(number - piece) : (int)strlen(piece), piece);
        if (number)
            *n += (size_t)sprintf(text + *n, "%07zu%s", 1000000 + i, number + 3);
    }
    *n += (size_t)sprintf(text + *n, "%s", close);
    return text;
}

/* Parsing takes no more memory than estimated, so at most its share. Texts that need too much are
 * refused before any allocation. */
TEST(test_memory_of_a_text)
{
    static const struct {
        const char *open, *piece, *close;
        int good, rich; /* 1 if sb_json_parse accepts the text; if sb_json_parse_rich does */
    } cases[] = {
        {"[", "{}", "]", 0, 0},
        {"[", "[]", "]", 0, 0},
        {"[", "0", "]", 0, 0},
        {"[", "\"\"", "]", 0, 0},
        {"[", "null", "]", 1, 1},
        {"{", "\"%zu\":{}", "}", 0, 0},
        {"{", "\"%zu\":1", "}", 0, 1},
        {"{\"weight_map\":{",
         "\"model.layers.0.mlp.experts.%zu.down_proj.weight\":"
         "\"model-00001-of-00002.safetensors\"",
         "}}", 1, 1},
        {"{\"ignore\":[", "\"model.layers.0.mlp.experts.%zu.down_proj\"", "]}", 1, 1},
        {"{\"merges\":[", "\"\u0120a %zu\"", "]}", 1, 1},
        {"[", "{\"token\":\" a\",\"logprob\":-1.2345678901234567,\"bytes\":[32,97]}", "]", 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sb_error err;
        json_t *root = NULL;
        size_t n, at;
        sb_json_need need;
        char *text = many(cases[i].open, cases[i].piece, 300000, cases[i].close, &n);
        assert_null(sb_json_scan(text, n, 0, &at, &need));
        json_set_alloc_funcs(counted, uncounted);
        most_taken = 0;
        assert_int_equal(sb_json_parse(text, n, "x", &root, &err) == SB_OK, cases[i].good);
        json_decref(cases[i].good ? root : NULL);
        if (!cases[i].good)
            assert_int_equal(most_taken, 0);
        assert_int_equal(sb_json_parse_rich(text, n, "x", &root, &err) == SB_OK, cases[i].rich);
        json_decref(cases[i].rich ? root : NULL);
        json_set_alloc_funcs(malloc, free);
        assert_int_equal(taken, 0);
        assert_true(most_taken <= need.memory);
        free(text);
    }
}

/* --- values ----------------------------------------------------------------------------------- */

static const char *const texts[] = {
    "{'a string of more than sixteen bytes': 'and another one of more than thirty-two bytes', "
    "'b': [1234567890123456789, -9223372036854775808, 0.1234567890123456789012345678901234567]}",
    "[' \\\" \\\\ \\/ \\b\\f\\n\\r\\t \\u00e9\\u20AC\\ud83d\\uDE00 "
    "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80']",
    "[0, 1, -1, 0.0, -0.0, 1e3, 1E-3, 1.5e+300, 4.9e-324, 1e-400, 9223372036854775807, -0e1]",
    "{'': {}, 'a': [], 'b': [[], {}, [[]]], 'c': true, 'd': false, 'e': null, '\\u0065\\u00e9': 1}",
    " [ { 'x' : [ 1 , 2 ] , 'y' : 'z' } ] ",
};

/* Our parser gives the same values as jansson's own. */
TEST(test_json_values)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sb_error err;
        json_t *root = NULL;
        char *text = scratch_json(texts[i]);
        check_status(text, sb_json_parse(text, strlen(text), "x", &root, &err), &err, SB_OK, "");
        json_t *same = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        assert_true(json_equal(root, same));
        char *own = json_dumps(root, JSON_REAL_PRECISION(17)),
             *other = json_dumps(same, JSON_REAL_PRECISION(17));
        assert_string_equal(own, other); /* also the order, and the sign of 0.0 */
        free(own);
        free(other);
        json_decref(same);
        json_decref(root);
        free(text);
    }
}

TEST(test_json_as_python_reads_it)
{
    sb_error err;
    json_t *root = NULL;
    char *text = scratch_json("{'a': 1000000000000000000000000000000, 'b': -0, 'c': 1, 'c': 2}");
    size_t n = strlen(text);
    check_status("strict", sb_json_parse(text, n, "x", &root, &err), &err, SB_ERR_INPUT, "-0");
    check_status("loose", sb_json_parse_loose(text, n, "x", &root, &err), &err, SB_OK, "");
    assert_true(json_real_value(json_object_get(root, "a")) == 1e30);
    assert_true(json_real_value(json_object_get(root, "c")) == 2);
    assert_true(json_is_real(json_object_get(root, "b")));
    json_decref(root);
    free(text);
    check_status("loose", sb_json_parse_loose("[1e999]", 7, "x", &root, &err), &err, SB_ERR_INPUT,
                 "overflow");
}

static unsigned long until_one_fails;

static void *one_fails(size_t bytes)
{
    return until_one_fails && --until_one_fails == 0 ? NULL : malloc(bytes);
}

/* One allocation fails, and later ones succeed. The result is an error or the whole value, and no
 * crash. */
TEST(test_json_without_memory)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *text = scratch_json(texts[i]);
        for (unsigned long n = 1; n; n++) {
            sb_error err;
            json_t *root = NULL;
            json_set_alloc_funcs(one_fails, free);
            until_one_fails = n;
            sb_status status = sb_json_parse(text, strlen(text), "x", &root, &err);
            int failed = until_one_fails == 0;
            json_set_alloc_funcs(malloc, free);
            if (failed)
                check_status(text, status, &err, SB_ERR_MEMORY, "x: out of memory");
            else
                n = ULONG_MAX;
            json_decref(status ? NULL : root);
            assert_true(n < 1000 || status == SB_OK);
        }
        free(text);
    }
}
