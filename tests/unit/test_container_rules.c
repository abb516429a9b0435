/* test_container_rules.c - every rule of a safetensors file: files that break it, and odd files
 * that keep it and must be read. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include "ref/container/safetensors.h"

typedef struct rule {
    const char *header; /* ' for " */
    size_t data_bytes;
    sb_status status;
    const char *fragment;
    size_t count; /* the number of tensors, if SB_OK */
} rule;

static void check_rules(const rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t size;
        sb_error err;
        sb_safetensors file;
        unsigned char *bytes = scratch_safetensors(rules[i].header, rules[i].data_bytes, &size);
        sb_status status = sb_safetensors_parse(bytes, size, "f.safetensors", &file, &err);
        check_status(rules[i].header, status, &err, rules[i].status, rules[i].fragment);
        if (status == SB_OK) {
            assert_int_equal(file.count, rules[i].count);
            sb_safetensors_close(&file);
        }
        free(bytes);
    }
}

#define CHECK_RULES(rules) check_rules(rules, sizeof(rules) / sizeof((rules)[0]))
#define T(name, dtype, shape, offsets)                                                             \
    "'" name "':{'dtype':'" dtype "','shape':" shape ",'data_offsets':" offsets "}"

TEST(test_what_must_be_read)
{
    static const rule rules[] = {
        {"{}", 0, SB_OK, "", 0},
        {"{}     ", 0, SB_OK, "", 0},
        {"{'__metadata__':{}}", 0, SB_OK, "", 0},
        {"{'__metadata__':{'format':'pt','':'x'}," T("a", "U8", "[1]", "[0,1]") "}", 1, SB_OK, "",
         1},
        {"{" T("a", "U8", "[1]", "[0,1]") ",'__metadata__':{'format':'pt'}}", 1, SB_OK, "", 1},
        {"{ \n\t'a' : {'shape' : [ 2 ,3 ],\r\n 'data_offsets':[0, 12],'dtype':'BF16'}\n}  ", 12,
         SB_OK, "", 1},
        {"{" T("scalar", "F32", "[]", "[0,4]") "}", 4, SB_OK, "", 1},
        {"{" T("odd", "U8", "[3]", "[0,3]") "," T("unaligned", "F64", "[1]", "[3,11]") "}", 11,
         SB_OK, "", 2},
        {"{" T("late", "U8", "[1]", "[2,3]") "," T("early", "I16", "[1]", "[0,2]") "}", 3, SB_OK,
         "", 2},
        {"{" T("rank8", "U8", "[1,1,1,2,1,1,1,1]", "[0,2]") "}", 2, SB_OK, "", 1},
        {"{" T("f4", "F4", "[2,3]", "[0,3]") "," T("f6", "F6_E2M3", "[4]", "[3,6]") "}", 6, SB_OK,
         "", 2},
        {"{" T("a\\u0062\\n\\/", "U8", "[1]", "[0,1]") "}", 1, SB_OK, "", 1},
        {"{" T("\xc3\xa9", "U8", "[1]", "[0,1]") "}", 1, SB_OK, "", 1},
    };
    CHECK_RULES(rules);
}

TEST(test_the_header_frame)
{
    static const rule rules[] = {
        {"", 0, SB_ERR_INPUT, "begins with byte 0x00, expected '{'", 0},
        {"[]", 0, SB_ERR_INPUT, "begins with byte 0x5b, expected '{'", 0},
        {" {}", 0, SB_ERR_INPUT, "begins with byte 0x20, expected '{'", 0},
        {"{", 0, SB_ERR_INPUT, "ends with byte 0x7b at offset 8", 0},
        {"{}\n", 0, SB_ERR_INPUT, "ends with byte 0x0a at offset 10", 0},
        {"{}\t ", 0, SB_ERR_INPUT, "ends with byte 0x09", 0},
        {"{} x", 0, SB_ERR_INPUT, "ends with byte 0x78", 0},
        {"{} {}", 0, SB_ERR_INPUT, "f.safetensors (header):1:", 0},
        {"{'a':1 'b':2}", 0, SB_ERR_INPUT, "(header):1:", 0},
        {"{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[0,1]") "}", 1, SB_ERR_INPUT,
         "duplicate object key", 0},
        {"{'a':{'dtype':'U8','dtype':'U8','shape':[1],'data_offsets':[0,1]}}", 1, SB_ERR_INPUT,
         "duplicate object key", 0},
        {"{'__metadata__':{},'__metadata__':{}}", 0, SB_ERR_INPUT, "duplicate object key", 0},
        {"{'__metadata__':{'n':1}}", 0, SB_ERR_INPUT, "__metadata__.n is 1, expected a string", 0},
        {"{'__metadata__':['pt']}", 0, SB_ERR_INPUT, "__metadata__ is an array of 1", 0},
        {"{'__metadata__':null}", 0, SB_ERR_INPUT, "__metadata__ is null", 0},
    };
    CHECK_RULES(rules);
}

TEST(test_the_entry_of_a_tensor)
{
    static const rule rules[] = {
        {"{'a':[]}", 0, SB_ERR_INPUT, "tensor \"a\" is an array of 0, expected an object", 0},
        {"{'a':{}}", 0, SB_ERR_INPUT, "tensor \"a\".dtype is absent", 0},
        {"{'a':{'dtype':'U8','data_offsets':[0,1]}}", 1, SB_ERR_INPUT,
         "tensor \"a\".shape is absent", 0},
        {"{'a':{'dtype':'U8','shape':[1]}}", 1, SB_ERR_INPUT, "tensor \"a\".data_offsets is absent",
         0},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,1],'strides':[1]}}", 1, SB_ERR_INPUT,
         "tensor \"a\".strides is a key that does not belong there", 0},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,1],'a\\rb\\n':[1]}}", 1, SB_ERR_INPUT,
         "tensor \"a\".a\\x0db\\x0a is a key that does not belong there", 0},
        {"{" T("", "U8", "[1]", "[0,1]") "}", 1, SB_ERR_INPUT, "its name has 0 bytes", 0},
        {"{'a':{'dtype':8,'shape':[1],'data_offsets':[0,1]}}", 1, SB_ERR_INPUT,
         "tensor \"a\".dtype is 8, expected a string", 0},
        {"{" T("a", "F7", "[1]", "[0,1]") "}", 1, SB_ERR_INPUT,
         "tensor \"a\".dtype is \"F7\", which is no safetensors dtype", 0},
        {"{" T("a", "bf16", "[1]", "[0,2]") "}", 2, SB_ERR_INPUT, "no safetensors dtype", 0},
        {"{" T("a", "F8_E4M3FNUZ", "[1]", "[0,1]") "}", 1, SB_ERR_UNSUPPORTED,
         "F8_E4M3FNUZ, which is not read here: its exponent bias", 0},
        {"{" T("a", "F8_E5M2FNUZ", "[1]", "[0,1]") "}", 1, SB_ERR_UNSUPPORTED,
         "F8_E5M2FNUZ, which is not read here: its exponent bias", 0},
        {"{" T("a", "U8", "1", "[0,1]") "}", 1, SB_ERR_INPUT, "shape is 1, expected an array", 0},
        {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, SB_ERR_INPUT,
         "shape has 9 elements, expected 0 to 8", 0},
        {"{" T("a", "U8", "[0]", "[0,0]") "}", 0, SB_ERR_INPUT, "dimension 0 of shape is 0", 0},
        {"{" T("a", "U8", "[-1]", "[0,1]") "}", 1, SB_ERR_INPUT,
         "tensor \"a\".shape has element 0 -1, expected an unsigned integer", 0},
        {"{" T("a", "U8", "[1.0]", "[0,1]") "}", 1, SB_ERR_INPUT,
         "shape has element 0 the real number 1", 0},
        {"{" T("a", "U8", "[1e0]", "[0,1]") "}", 1, SB_ERR_INPUT,
         "shape has element 0 the real number 1", 0},
        {"{" T("a", "U8", "[true]", "[0,1]") "}", 1, SB_ERR_INPUT, "shape has element 0 true", 0},
        {"{" T("a", "U8", "[01]", "[0,1]") "}", 1, SB_ERR_INPUT, "not strict JSON", 0},
        {"{" T("a", "F64", "[4294967296,4294967296]", "[0,8]") "}", 8, SB_ERR_INPUT,
         "overflows 64 bits", 0},
        {"{" T("a", "F4", "[3]", "[0,2]") "}", 2, SB_ERR_INPUT, "do not end at a byte", 0},
    };
    CHECK_RULES(rules);
}

TEST(test_offsets_cover_the_data)
{
    static const rule rules[] = {
        {"{" T("a", "U8", "[2]", "[0]") "}", 2, SB_ERR_INPUT, "has 1 elements, expected 2 to 2", 0},
        {"{" T("a", "U8", "[2]", "[0,2,4]") "}", 2, SB_ERR_INPUT, "has 3 elements", 0},
        {"{" T("a", "U8", "[2]", "[-0,2]") "}", 2, SB_ERR_INPUT, "the integer -0", 0},
        {"{" T("a", "U8", "[2]", "[-2,0]") "}", 2, SB_ERR_INPUT, "data_offsets has element 0 -2",
         0},
        {"{" T("a", "F32", "[2,2]", "[0,12]") "}", 12, SB_ERR_INPUT,
         "tensor \"a\".data_offsets [0, 12] do not span the 16 bytes of shape [2, 2] in F32", 0},
        {"{" T("a", "U8", "[2]", "[2,0]") "}", 2, SB_ERR_INPUT, "do not span the 2 bytes", 0},
        {"{" T("a", "U8", "[2]", "[9223372036854775806,0]") "}", 2, SB_ERR_INPUT, "do not span", 0},
        {"{" T("a", "U8", "[4]", "[0,4]") "}", 3, SB_ERR_INPUT,
         "end beyond the 3 data bytes of the file: it is truncated", 0},
        {"{" T("a", "U8", "[4]", "[9223372036854775803,9223372036854775807]") "}", 3, SB_ERR_INPUT,
         "end beyond the 3 data bytes", 0},
        {"{" T("a", "U8", "[2]", "[0,2]") "}", 3, SB_ERR_INPUT,
         "1 bytes at data offset 2 follow the last tensor", 0},
        {"{}", 1, SB_ERR_INPUT, "1 bytes at data offset 0 follow", 0},
        {"{" T("a", "U8", "[2]", "[1,3]") "}", 3, SB_ERR_INPUT,
         "data bytes 0 to 1 in front of tensor \"a\" belong to no tensor", 0},
        {"{" T("b", "U8", "[2]", "[3,5]") "," T("a", "U8", "[2]", "[0,2]") "}", 5, SB_ERR_INPUT,
         "data bytes 2 to 3 in front of tensor \"b\" belong to no tensor", 0},
        {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[3,7]") "}", 7, SB_ERR_INPUT,
         "tensor \"b\" begins at data offset 3, but tensor \"a\" ends at 4: they overlap", 0},
        {"{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[0,4]") "}", 4, SB_ERR_INPUT,
         "they overlap", 0},
        {"{" T("a", "U8", "[6]", "[0,6]") "," T("b", "U8", "[2]", "[2,4]") "}", 6, SB_ERR_INPUT,
         "they overlap", 0},
    };
    CHECK_RULES(rules);
}

TEST(test_the_length_of_the_header)
{
    static const struct {
        uint64_t length;
        size_t size; /* bytes of the file */
        const char *fragment;
    } cases[] = {
        {0, 0, "the file has 0 bytes"},
        {2, 7, "the file has 7 bytes, expected 8"},
        {0, 8, "begins with byte 0x00"},
        {0, 10, "begins with byte 0x00"},
        {2, 9, "is 2, but only 1 bytes follow: the file is truncated"},
        {3, 10, "is 3, but only 2 bytes follow"},
        {100000000, 10, "is 100000000, but only 2 bytes follow"},
        {100000001, 10, "is 100000001, expected at most 100000000"},
        {UINT64_MAX, 10, "is 18446744073709551615, expected at most"},
        {UINT64_MAX - 7, 10, "expected at most"}, /* length + 8 would be 0 in 64 bits */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char bytes[10];
        sb_error err;
        sb_safetensors file;
        sb_store_u64(bytes, cases[i].length);
        memcpy(bytes + 8, "{}", 2);
        sb_status status = sb_safetensors_parse(bytes, cases[i].size, "f", &file, &err);
        check_status("length", status, &err, SB_ERR_INPUT, cases[i].fragment);
    }
}

TEST(test_names_have_a_limit)
{
    for (size_t n = SB_MAX_TENSOR_NAME; n <= SB_MAX_TENSOR_NAME + 1; n++) {
        char header[SB_MAX_TENSOR_NAME + 100] = "{'";
        memset(header + 2, 'n', n);
        strcpy(header + 2 + n, "':{'dtype':'U8','shape':[1],'data_offsets':[0,1]}}");
        rule one = {header, 1, SB_OK, "", 1};
        if (n > SB_MAX_TENSOR_NAME) {
            one.status = SB_ERR_INPUT;
            one.fragment = "its name has 1025 bytes, expected 1 to 1024";
        }
        check_rules(&one, 1);
    }
}

TEST(test_tensors_are_counted_before_they_are_read)
{
    size_t n = 0;
    char *header = malloc(16u * (SB_MAX_TENSORS + 1));
    assert_non_null(header);
    for (unsigned i = 0; i <= SB_MAX_TENSORS; i++)
        n += (size_t)sprintf(header + n, "%c'%u':0", i ? ',' : '{', i);
    strcpy(header + n, "}");
    rule one = {header, 0, SB_ERR_INPUT, "lists 1000001 tensors, expected at most 1000000", 0};
    check_rules(&one, 1);
    free(header);
}

/* A good file cut at any byte is refused. */
TEST(test_every_truncation_is_refused)
{
    size_t n;
    sb_error err;
    sb_safetensors file;
    unsigned char *bytes =
        scratch_safetensors("{'__metadata__':{'format':'pt'}," T("a", "U8", "[3]", "[0,3]") "," T(
                                "b", "F32", "[2]", "[3,11]") "}    ",
                            11, &n);
    check_status("whole", sb_safetensors_parse(bytes, n, "f", &file, &err), &err, SB_OK, "");
    sb_safetensors_close(&file);
    for (size_t cut = 0; cut < n; cut++) {
        unsigned char *copy = malloc(cut + 1); /* so that the sanitizer detects a read beyond it */
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        copy = realloc(copy, cut ? cut : 1);
        assert_non_null(copy);
        check_status("cut", sb_safetensors_parse(copy, cut, "f", &file, &err), &err, SB_ERR_INPUT,
                     "f");
        free(copy);
    }
    free(bytes);
}
