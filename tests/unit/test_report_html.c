/* The page, the lines, the Markdown and the pack of a comparison, from verdicts made by hand:
 * hostile names stay text, tags are closed, maps are binned and stay small, all reports give the
 * same verdict, and damaged packs are refused. */
#include <float.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"
#include "tools/report/diff/html.h"
#include "tools/report/diff/jsonl.h"
#include "tools/report/diff/markdown.h"
#include "tools/report/part/tar.h"

static const char hostile[] =
    "</code><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\n`| &amp; \xff";

/* Tokens in sequences of 100, with each layer within its bound. */
static void make_verdicts(sb_verdicts *v, size_t tokens, uint32_t layers)
{
    *v = (sb_verdicts){.verdict = SB_VERDICT_WITHIN};
    for (size_t i = 0; i < tokens; i++) {
        sb_token_verdict *t = sb_verdicts_token(v);
        assert_non_null(t);
        *t = (sb_token_verdict){.sequence = (uint32_t)(i / 100),
                                .position = i % 100,
                                .id = (uint32_t)i,
                                .has_kl = 1,
                                .kl = 1e-14,
                                .worst_ratio = 0.2,
                                .verdict = SB_VERDICT_WITHIN};
    }
    assert_true(sb_cells_rows(&v->cells, layers, tokens));
    for (size_t i = 0; i < tokens; i++)
        for (uint32_t k = 0; k <= layers + 1; k++)
            sb_cells_mark(&v->cells, i, k, 0.2);
    v->ops[SB_OP_rmsnorm] = (sb_op_verdict){.compared = tokens,
                                            .identical = tokens / 2,
                                            .open = tokens,
                                            .worst = 0.2,
                                            .median = 0.1,
                                            .verdict = SB_VERDICT_WITHIN};
}

static void add_round(sb_verdicts *v, uint64_t position)
{
    sb_round_verdict *r = sb_verdicts_round(v);
    assert_non_null(r);
    *r = (sb_round_verdict){.position = position,
                            .has_reference = 1,
                            .drafted = {2, 2},
                            .accepted = {2, 1},
                            .verdict = SB_VERDICT_FAIL};
    r->state[SB_STATE_conv] = (sb_state_verdict){
        .verdict = SB_VERDICT_FAIL,
        .has_first = 1,
        .first = {.layer = 1, .rank = 3, .element = {3, 4, 5}, .found = 2, .expected = 1}};
    snprintf(r->hypothesis, sizeof r->hypothesis, "%s", hostile);
}

/* One layer of one token is out of bounds, with every detail that can be shown. */
static void make_failure(sb_verdicts *v, size_t token, uint32_t layer)
{
    sb_place p = {.sequence = v->tokens[token].sequence,
                  .token = v->tokens[token].position,
                  .layer = layer,
                  .op = "rmsnorm",
                  .rank = 1,
                  .element = {7},
                  .found = 2,
                  .expected = 1,
                  .bound = 0x1p-20};
    snprintf(p.name, sizeof p.name, "layers.%u.%.60s", (unsigned)layer, hostile);
    snprintf(p.words, sizeof p.words, "%s is wrong", hostile);
    assert_true(sb_verdicts_fail(v, &p));
    v->around = (sb_around){.count = SB_AROUND};
    for (size_t i = 0; i < SB_AROUND; i++) {
        v->around.found[i] = i == 7 ? 2.0f : 1.0f;
        v->around.expected[i] = 1;
        v->around.bound[i] = 0x1p-20;
    }
    sb_cells_mark(&v->cells, token, layer, 0x1p20);
    v->tokens[token].verdict = SB_VERDICT_FAIL;
    v->tokens[token].worst_ratio = 0x1p20;
    v->ops[SB_OP_rmsnorm].verdict = SB_VERDICT_FAIL;
    v->explanation_count = 1;
    snprintf(v->explanations[0].change, sizeof v->explanations[0].change, "%.90s", hostile);
    snprintf(v->explanations[0].words, sizeof v->explanations[0].words, "%s", hostile);
    add_round(v, v->tokens[token].position);
    snprintf(v->reason, sizeof v->reason, "%s", hostile);
    v->verdict = SB_VERDICT_FAIL;
}

static sb_diff_reports reports_of(const sb_verdicts *v, uint32_t layers)
{
    static const char *const arguments[] = {"diff", "it's", hostile};
    return (sb_diff_reports){.item = {{.verdicts = v,
                                       .checkpoint = hostile,
                                       .engine = hostile,
                                       .of = hostile,
                                       .profile = "exact",
                                       .arithmetic = "library",
                                       .ways = "forced and free",
                                       .notes = hostile,
                                       .layers = layers,
                                       .steps = 2,
                                       .sequences = 1 + (v->token_count - 1) / 100}},
                             .count = 1,
                             .arguments = arguments,
                             .argument_count = 3,
                             .digest = ""};
}

static char *printed(sb_print_fn print, const void *ctx, size_t *size)
{
    char *text;
    size_t n;
    assert_int_equal(sb_print_memory(print, ctx, "test", &text, size ? size : &n, NULL), SB_OK);
    return text;
}

/* strstr() for scanning a long page. Under the sanitizers' strict_string_checks, strstr, strchr and
 * strcspn read the whole rest of the page in every call, which took minutes. */
static const char *next(const char *at, const char *what)
{
    for (size_t n = strlen(what); *at; at++)
        if (*at == *what && strncmp(at, what, n) == 0)
            return at;
    return NULL;
}

static size_t occurrences(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = next(at, what)); at++)
        n++;
    return n;
}

static void has(const char *text, const char *what)
{
    if (!strstr(text, what))
        fail_msg("the report lacks: %s", what);
}

/* --- the page --------------------------------------------------------------------------------- */

enum { DEPTH = 32 };

/* True if every tag is closed by its own name and attributes are quoted. */
static int is_balanced(const char *page)
{
    char open[DEPTH][16];
    size_t depth = 0;
    for (const char *at = strstr(page, "</style>"); (at = next(at, "<")); at++) {
        int closing = at[1] == '/';
        char name[16] = "";
        const char *end = at, *word = at + 1 + closing;
        size_t n = 0;
        while (n < sizeof name && word[n] && !strchr(" />\n", word[n]))
            n++;
        for (int quoted = 0; *end && (quoted || *end != '>'); end++)
            quoted ^= *end == '"';
        if (!*end || n == 0 || n >= sizeof name)
            return 0;
        memcpy(name, word, n);
        if (strcmp(name, "style") == 0 && closing)
            continue; /* the scan begins here */
        if (closing && strcmp(name, "head") == 0 && depth == 0)
            continue;
        if (closing && strcmp(name, "html") == 0 && depth == 0)
            return 1;
        if (closing && (depth == 0 || strcmp(open[--depth], name) != 0))
            return 0;
        if (!closing && end[-1] != '/') {
            if (depth == DEPTH)
                return 0;
            memcpy(open[depth++], name, sizeof name);
        }
        at = end - 1;
    }
    return 0;
}

/* Hostile text must not begin a tag. */
static void is_safe(const char *page)
{
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "http:"));
    assert_null(strstr(page, "https:"));
    assert_null(strstr(page, "url("));
    has(page, "content=\"default-src 'none'; style-src 'unsafe-inline'\"");
    has(page, "&lt;script&gt;");
    assert_true(is_balanced(page));
}

TEST(hostile_names_stay_text)
{
    sb_verdicts v;
    make_verdicts(&v, 20, 4);
    make_failure(&v, 3, 2);
    sb_diff_reports r = reports_of(&v, 4);
    char *page = printed(sb_diff_html, &r, NULL);
    is_safe(page);
    assert_false(is_balanced("<style></style><p><b></p></b></html>"));
    assert_false(is_balanced("<style></style><p></html>"));
    assert_true(is_balanced("<style></style><p a=\">\"><b></b></p></html>"));
    free(page);
    sb_verdicts_free(&v);
}

TEST(says_what_failed)
{
    sb_verdicts v;
    make_verdicts(&v, 20, 4);
    make_failure(&v, 3, 2);
    v.tokens[5].kl_is_lower = 1;
    v.tokens[3].worst_ratio = 0.2; /* as for a draft: only the op shows it */
    v.ops[SB_OP_rmsnorm].worst = 0x1p20;
    sb_diff_reports r = reports_of(&v, 4);
    char *page = printed(sb_diff_html, &r, NULL);
    has(page, "For 1 tokens only a part of the distribution is known");
    has(page, "<dd>at least 1.00e-14 nats</dd>");
    assert_int_equal(occurrences(page, "<td>&gt; 1.00e-14</td>"), 1);
    has(page, "data-verdict=\"FAIL\"");
    has(page, "up to 1 is within the bound</dt><dd>1.0e+06</dd>");
    has(page,
        "The first failure is at position 3, layer 2, in the op <b class=\"bad\">rmsnorm</b>");
    /* a field for each token and layer, for the head, for no layer and for the token as a whole;
     * and the frame */
    assert_int_equal(occurrences(page, "<rect x=\""), 20 * 7 + 1);
    has(page, "<rect x=\"3\" y=\"3\" width=\"1\" height=\"1\" class=\"first\">");
    has(page, "class=\"h6\"><title>position 3, layer 2: 1.0e+06</title>");
    has(page, "class=\"h6\"><title>position 0, layer 1: the state behind it i");
    assert_int_equal(occurrences(page, "class=\"h6\"><title>position"), 3);
    /* the element and its neighbours */
    has(page, "<tr class=\"hit\"><td>7</td><td>2</td><td>1</td><td>1.0e+06</td>");
    has(page, "conv</td><td><span class=\"verdict bad\">FAIL</span></td><td>1</td><td>1</td>");
    has(page, "layer 1, head 3, row 4, column 5: 2, expected 1");
    has(page, "<tr><td>draft 2</td><td class=\"left\"><span class=\"bar\"><i "
              "style=\"width:100%\"></i></span> 1 of 1</td><td class=\"left\"><span "
              "class=\"bar\"><i style=\"width:0%\"></i></span> 0 of 1</td>");
    free(page);
    sb_verdicts_free(&v);
}

TEST(leaves_out_what_is_not_there)
{
    sb_verdicts v;
    make_verdicts(&v, 20, 4);
    free(v.cells.worst); /* as for a trace without ops */
    v.cells = (sb_cells){0};
    v.ops[SB_OP_rmsnorm] = (sb_op_verdict){.compared = 0};
    for (size_t i = 0; i < 20; i++)
        v.tokens[i].has_kl = 0;
    sb_diff_reports r = reports_of(&v, 4);
    char *page = printed(sb_diff_html, &r, NULL);
    assert_int_equal(occurrences(page, "<rect x=\""), 20);
    has(page, "only whole tokens");
    assert_null(strstr(page, "at least"));
    assert_null(strstr(page, "data-section=\"failure\""));
    assert_null(strstr(page, "data-section=\"kl\""));
    assert_null(strstr(page, "data-section=\"acceptance\""));
    assert_null(strstr(page, "data-section=\"state\""));
    assert_null(strstr(page, "data-section=\"ops\""));
    is_safe(page);
    free(page);
    v.token_count = 0; /* no tokens at all */
    page = printed(sb_diff_html, &r, NULL);
    assert_null(strstr(page, "data-section=\"map\""));
    is_safe(page);
    free(page);
    sb_verdicts_free(&v);
}

TEST(long_runs_are_binned)
{
    size_t size;
    sb_verdicts v;
    make_verdicts(&v, 10000, 64);
    make_failure(&v, 4321, 33);
    for (size_t i = 0; i < 2000; i++)
        add_round(&v, i);
    sb_diff_reports r = reports_of(&v, 64);
    char *page = printed(sb_diff_html, &r, &size);
    assert_true(size < 2000000);
    /* 67 rows: 12000 / 67 = 179 columns at most, 56 tokens each */
    has(page, "56 tokens share a column");
    assert_int_equal(occurrences(page, "<rect x=\""), 179 * 67 + 1);
    assert_int_equal(occurrences(page, "<rect class=\"eng\""), 334);
    has(page, "<rect x=\"77\" y=\"34\" width=\"1\" height=\"1\" class=\"first\">");
    assert_int_equal(occurrences(page, "class=\"h6\"><title>sequence 43, 56 tokens from"), 2);
    has(page, "Up to 6 rounds share a bar");
    has(page, "28 tokens share a point");
    is_safe(page);
    free(page);
    sb_verdicts_free(&v);
    make_verdicts(&v, 300, 500);
    make_failure(&v, 299, 499);
    r = reports_of(&v, 500);
    page = printed(sb_diff_html, &r, &size);
    assert_true(size < 2000000);
    has(page, "4 layers share a row");
    has(page, "class=\"h6\"><title>sequence 2, 4 tokens from position 96, layer 496 to layer 499");
    is_safe(page);
    free(page);
    sb_verdicts_free(&v);
}

/* --- one verdict ------------------------------------------------------------------------------ */

TEST(all_say_the_same)
{
    scratch_path dir = scratch_new(), path = scratch_join(dir.text, "report.xml");
    sb_verdicts v;
    make_verdicts(&v, 4, 2);
    for (int i = SB_VERDICT_IDENTICAL; i <= SB_VERDICT_FAIL; i++) {
        char words[64], *text;
        size_t size;
        unsigned char *xml;
        v.verdict = (sb_verdict)i;
        const char *name = sb_verdict_name(v.verdict);
        sb_diff_reports r = reports_of(&v, 2);
        json_t *document = sb_diff_json(&r.item[0], json_object());
        assert_non_null(document);
        assert_string_equal(json_string_value(json_object_get(document, "verdict")), name);
        text = printed(sb_diff_html, &r, NULL);
        snprintf(words, sizeof words, "data-verdict=\"%s\"", name);
        assert_int_equal(occurrences(text, "data-verdict"), 1);
        has(text, words);
        free(text);
        text = printed(sb_diff_jsonl, &(sb_diff_lines){document, &r}, NULL);
        snprintf(words, sizeof words, "{\"type\":\"summary\",\"of\":\"engine\",\"verdict\":\"%s\"",
                 name);
        has(text, words);
        free(text);
        text = printed(sb_diff_markdown, &r, NULL);
        snprintf(words, sizeof words, "### %s: ", name);
        has(text, words);
        free(text);
        assert_int_equal(sb_diff_junit(&r, path.text, NULL), SB_OK);
        assert_int_equal(sb_read_file(path.text, 1 << 20, &xml, &size, NULL), SB_OK);
        snprintf(words, sizeof words, "<property name=\"verdict\" value=\"%s\"/>", name);
        has((char *)xml, words);
        free(xml);
        json_decref(document);
    }
    scratch_remove(dir.text);
    sb_verdicts_free(&v);
}

TEST(two_engines)
{
    sb_verdicts v[2];
    make_verdicts(&v[0], 5, 2);
    make_verdicts(&v[1], 5, 2);
    make_failure(&v[1], 1, 1);
    sb_diff_reports r = reports_of(&v[0], 2);
    r.item[1] = reports_of(&v[1], 2).item[0];
    r.count = 2;
    r.right = "engine";
    char *page = printed(sb_diff_html, &r, NULL);
    has(page, "Right: <b>engine</b>");
    assert_int_equal(occurrences(page, "data-verdict=\"WITHIN\""), 1);
    assert_int_equal(occurrences(page, "data-verdict=\"FAIL\""), 1);
    is_safe(page);
    free(page);
    json_t *document = sb_diff_json(&r.item[0], json_object());
    json_object_set_new(document, "versus", sb_diff_json(&r.item[1], json_object()));
    json_object_set_new(document, "right", json_string(r.right));
    char *lines = printed(sb_diff_jsonl, &(sb_diff_lines){document, &r}, NULL);
    has(lines, "{\"type\":\"summary\",\"of\":\"engine\",\"verdict\":\"WITHIN\"");
    has(lines, "{\"type\":\"summary\",\"of\":\"versus\",\"verdict\":\"FAIL\"");
    assert_int_equal(occurrences(lines, "\"type\":\"head\""), 2);
    free(lines);
    json_decref(document);
    sb_verdicts_free(&v[0]);
    sb_verdicts_free(&v[1]);
}

/* --- lines and Markdown ----------------------------------------------------------------------- */

TEST(lines_are_objects)
{
    static const char *const types[] = {"head",        "token",         "round",  "op",
                                        "explanation", "first_failure", "summary"};
    static const size_t wanted[] = {1, 6, 1, 1, 1, 1, 1};
    size_t found[7] = {0};
    sb_verdicts v;
    make_verdicts(&v, 6, 3);
    make_failure(&v, 2, 1);
    v.cells.worst[2 * 5 + 4] = SB_CELL_EMPTY;
    sb_diff_reports r = reports_of(&v, 3);
    json_t *document = sb_diff_json(&r.item[0], json_object());
    char *text = printed(sb_diff_jsonl, &(sb_diff_lines){document, &r}, NULL), *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_t *one = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(one);
        const char *type = json_string_value(json_object_get(one, "type"));
        for (size_t i = 0; i < 7; i++)
            found[i] += strcmp(types[i], type) == 0;
        if (strcmp(type, "token") == 0 &&
            json_integer_value(json_object_get(one, "position")) == 2) {
            json_t *layers = json_object_get(one, "layers");
            assert_int_equal(json_array_size(layers), 5);
            assert_true(json_real_value(json_array_get(layers, 1)) == 0x1p20);
            assert_true(json_is_null(json_array_get(layers, 4)));
        }
        if (strcmp(type, "head") == 0)
            assert_int_equal(json_array_size(json_object_get(one, "layers")), 5);
        json_decref(one);
    }
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(found[i], wanted[i]);
    free(text);
    json_decref(document);
    sb_verdicts_free(&v);
}

TEST(commands_survive_a_shell)
{
    static const char *const arguments[] = {"diff", "a b", "it's", "", "$HOME", "plain-1,2=3"};
    sb_verdicts v;
    make_verdicts(&v, 2, 2);
    sb_diff_reports r = reports_of(&v, 2);
    r.arguments = arguments;
    r.argument_count = 6;
    char *text = printed(sb_diff_command, &r, NULL);
    assert_string_equal(text, "samebit diff 'a b' 'it'\\''s' '' '$HOME' plain-1,2=3\n");
    free(text);
    sb_verdicts_free(&v);
}

/* --- cells ------------------------------------------------------------------------------------ */

TEST(cells_keep_the_worst)
{
    sb_cells c = {0}, other = {0};
    assert_true(sb_cells_rows(&c, 3, 1));
    assert_int_equal(c.layers, 5);
    assert_true(c.worst[0] == SB_CELL_EMPTY);
    sb_cells_mark(&c, 0, 1, 0.5);
    sb_cells_mark(&c, 0, 1, 0.25);
    sb_cells_mark(&c, 0, 3, 0);
    sb_cells_mark(&c, 0, SB_NO_LAYER, 1e300);
    assert_true(sb_cells_rows(&c, 3, 100));
    assert_true(c.worst[1] == 0.5f && c.worst[3] == 0 && c.worst[4] == FLT_MAX);
    assert_true(c.worst[99 * 5 + 4] == SB_CELL_EMPTY);
    assert_true(sb_cells_rows(&other, 3, 2));
    sb_cells_mark(&other, 1, 1, 0.75);
    sb_cells_add(&c, 0, &other, 1);
    assert_true(c.worst[0] == SB_CELL_EMPTY && c.worst[1] == 0.75f && c.worst[3] == 0);
    free(other.worst);
    sb_alloc_fail_at(1);
    assert_false(sb_cells_rows(&c, 3, 100000));
    sb_alloc_fail_at(0);
    assert_int_equal(c.rows, 100);
    free(c.worst);
}

/* --- packs ------------------------------------------------------------------------------------ */

static const sb_tar_member members[] = {
    {"a.txt", "hello", 5}, {"empty", "", 0}, {"replay.safetensors", "0123456789", 10}};

static unsigned char *make_pack(size_t *size)
{
    unsigned char *bytes;
    scratch_path dir = scratch_new(), path = scratch_join(dir.text, "p.tar");
    assert_int_equal(sb_tar_write(path.text, members, 3, NULL), SB_OK);
    assert_int_equal(sb_read_file(path.text, 1 << 20, &bytes, size, NULL), SB_OK);
    scratch_remove(dir.text);
    return bytes;
}

TEST(packs_are_read_again)
{
    size_t size, again;
    sb_tar_member m;
    sb_error err;
    unsigned char *bytes = make_pack(&size), *twice = make_pack(&again);
    assert_int_equal(size, 7 * 512); /* three headers, two content blocks, two blocks at the end */
    assert_int_equal(again, size);
    assert_memory_equal(bytes, twice, size);
    assert_true(sb_tar_is(bytes, size));
    assert_string_equal((char *)bytes + 100, "0000644"); /* mode; then owner, group, time */
    assert_string_equal((char *)bytes + 108, "0000000");
    assert_string_equal((char *)bytes + 116, "0000000");
    assert_string_equal((char *)bytes + 136, "00000000000");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sb_tar_find(bytes, size, "p", members[i].name, &m, &err), SB_OK);
        assert_int_equal(m.count, members[i].count);
        assert_memory_equal(m.bytes, members[i].bytes, m.count);
    }
    assert_int_equal(sb_tar_find(bytes, size, "p", "replay", &m, &err), SB_ERR_INPUT);
    has(err.text, "p: the pack has no replay");
    bytes[5 + 512]++; /* the checksum does not cover the content */
    assert_int_equal(sb_tar_find(bytes, size, "p", "empty", &m, &err), SB_OK);
    bytes[1]++;
    assert_int_equal(sb_tar_find(bytes, size, "p", "empty", &m, &err), SB_ERR_INPUT);
    has(err.text, "byte 0: the header of the pack is damaged");
    free(bytes);
    free(twice);
}

/* A pack cut at any length or with any byte changed: each member is inside the bytes, or the pack
 * is refused. */
TEST(damaged_packs_are_refused)
{
    size_t size, found = 0;
    sb_tar_member m;
    unsigned char *bytes = make_pack(&size);
    for (size_t cut = 0; cut <= size; cut++) {
        unsigned char *copy = malloc(cut + !cut);
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        if (sb_tar_find(copy, cut, "p", "replay.safetensors", &m, NULL) == SB_OK) {
            assert_true(m.count == 10 && (const unsigned char *)m.bytes + 10 <= copy + cut);
            found++;
        }
        free(copy);
    }
    assert_int_equal(found, size + 1 - (4 * 512 + 10));
    for (size_t i = 0; i < 512; i++)
        for (int with = 0; with < 256; with += 51) {
            unsigned char old = bytes[i];
            bytes[i] = (unsigned char)with;
            sb_status status = sb_tar_find(bytes, size, "p", "replay.safetensors", &m, NULL);
            if (status == SB_OK)
                assert_true((const unsigned char *)m.bytes + m.count <= bytes + size);
            bytes[i] = old;
        }
    free(bytes);
}
