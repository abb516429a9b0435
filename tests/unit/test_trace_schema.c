/* test_trace_schema.c - docs/trace.schema.json and the reader refuse the same traces. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include <glob.h>

#include "tests/lib/schema.h"
#include "tools/judge/trace/read.h"
#include "tools/judge/trace/write.h"

static json_t *schema_of(void)
{
    json_t *schema = json_load_file("docs/trace.schema.json", 0, NULL);
    assert_non_null(schema);
    return schema;
}

static int fits(const json_t *schema, const json_t *document, char *why, size_t room)
{
    assert_non_null(document);
    return schema_fits(schema, document, why, room);
}

/* --- good traces * ---------------------------------------------------------------------------- */

static size_t check_recorded(const json_t *schema, const char *pattern)
{
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char why[512];
        json_t *document = json_load_file(found.gl_pathv[i], 0, NULL);
        if (!fits(schema, document, why, sizeof why))
            fail_msg("%s: %s", found.gl_pathv[i], why);
        json_decref(document);
    }
    size_t count = found.gl_pathc;
    globfree(&found);
    return count;
}

/* Recorded traces of other programs, also of version 1. */
TEST(test_schema_recorded)
{
    json_t *schema = schema_of();
    assert_true(check_recorded(schema, "golden/trace/*/trace.json") >= 8);
    assert_true(check_recorded(schema, "golden/dumps/*/trace.json") >= 2);
    json_decref(schema);
}

static void write_all(const char *dir)
{
    const uint32_t ids[] = {1, 2, 3};
    sb_trace_head head = {.engine = "mine",
                          .has_knobs = 1,
                          .vocab_size = 4,
                          .rollback = SB_TRACE_ROLLBACK_slots,
                          .drafter = SB_TRACE_DRAFTER_external,
                          .functions = "cuda_fast",
                          .delta_chunk = 128,
                          .prefix = SB_TRACE_PREFIX_block,
                          .prefix_block = 2};
    sb_trace_writer *w = NULL;
    sb_step step;
    sb_knobs_exact(&head.knobs);
    assert_int_equal(sb_trace_begin(dir, &head, &w, NULL), SB_OK);
    assert_int_equal(sb_step_of_ids(0, 0, ids, 3, SB_CALL_verify, &step, NULL), SB_OK);
    sb_step_round *r = sb_step_add_round(&step);
    assert_non_null(r);
    r->round = (sb_round){
        .drafted = 2, .drafts = {2, 3}, .accepted = 1, .forced = 1, .emitted = 2, .tokens = {2, 3}};
    assert_int_equal(sb_trace_write(w, &step, NULL), SB_OK);
    sb_step_clear(&step);
    assert_int_equal(sb_step_of_ids(1, 2, ids, 1, SB_CALL_prompt, &step, NULL), SB_OK);
    step.number = 1;
    sb_step_prefix *p = sb_step_add_prefix(&step);
    assert_non_null(p);
    *p = (sb_step_prefix){.sequence = 1, .position = 2, .tokens = calloc(2, sizeof *p->tokens)};
    assert_non_null(p->tokens);
    p->tokens[0] = 1;
    p->tokens[1] = 2;
    sb_step_sampling *s = sb_step_add_sampling(&step);
    assert_non_null(s);
    *s = (sb_step_sampling){.sequence = 1,
                            .has = {1, 1, 1},
                            .value = {0.75, 40, 0.5},
                            .sampler = SB_SAMPLER_mlx,
                            .generator = SB_GENERATOR_inverse,
                            .seed_kind = SB_SEED_number,
                            .seed = INT64_MAX};
    assert_int_equal(sb_trace_write(w, &step, NULL), SB_OK);
    assert_int_equal(sb_trace_commit(w, NULL), SB_OK);
    sb_trace_writer_free(w);
    sb_step_clear(&step);
}

/* A trace with everything in version 3 is read back and fits the schema. */
TEST(test_schema_written)
{
    scratch_path dir = scratch_new();
    json_t *schema = schema_of();
    char path[sizeof dir.text + 16], why[512];
    sb_trace *t = NULL;
    write_all(dir.text);
    assert_int_equal(sb_trace_open(dir.text, &t, NULL), SB_OK);
    const sb_trace_head *head = sb_trace_info(t);
    assert_int_equal(head->version, 3);
    assert_int_equal(head->rollback, SB_TRACE_ROLLBACK_slots);
    assert_int_equal(head->drafter, SB_TRACE_DRAFTER_external);
    assert_string_equal(head->functions, "cuda_fast");
    assert_int_equal(head->delta_chunk, 128);
    assert_int_equal(sb_trace_outline(t, 0)->rounds[0].round.forced, 1);
    assert_int_equal(head->prefix, SB_TRACE_PREFIX_block);
    assert_int_equal(head->prefix_block, 2);
    assert_int_equal(sb_trace_outline(t, 0)->prefix_count, 0);
    const sb_step *child = sb_trace_outline(t, 1);
    assert_int_equal(child->prefix_count, 1);
    assert_int_equal(child->prefixes[0].sequence, 1);
    assert_int_equal(child->prefixes[0].parent, 0);
    assert_int_equal(child->prefixes[0].position, 2);
    assert_int_equal(child->prefixes[0].tokens[1], 2);
    assert_int_equal(child->sampling_count, 1);
    const sb_step_sampling *s = &child->samplings[0];
    assert_int_equal(s->sequence, 1);
    assert_true(s->has[SB_SETTING_top_k] && s->value[SB_SETTING_top_k] == 40);
    assert_true(s->has[SB_SETTING_temperature] && s->value[SB_SETTING_temperature] == 0.75);
    assert_false(s->has[SB_SETTING_min_p]);
    assert_int_equal(s->sampler, SB_SAMPLER_mlx);
    assert_int_equal(s->generator, SB_GENERATOR_inverse);
    assert_true(s->seed_kind == SB_SEED_number && s->seed == INT64_MAX);
    sb_trace_close(t);
    snprintf(path, sizeof path, "%s/trace.json", dir.text);
    json_t *document = json_load_file(path, 0, NULL);
    if (!fits(schema, document, why, sizeof why))
        fail_msg("%s", why);
    json_decref(document);
    json_decref(schema);
    scratch_remove(dir.text);
}

/* --- planted errors * ------------------------------------------------------------------------- */

static const char list[] =
    "{'format':'samebit-trace','version':3,'spec':2,'engine':'mine','profile':'hf','rollback':"
    "'replay','drafter':'own','functions':'libm','delta_chunk':64,'prefix':'block',"
    "'prefix_block':2,'vocab_size':4,'level':2,"
    "'checkpoint':'0123456789abcdef0123456789abcdef','note':{'any':1},'steps':["
    "{'step':0,'logits_rows':[1],'rows':["
    "{'sequence':0,'slot':0,'position':0,'token':1,'kind':'prompt'},"
    "{'sequence':0,'slot':0,'position':1,'token':2,'kind':'prompt'}]},"
    "{'step':1,'rows':["
    "{'sequence':0,'slot':0,'position':2,'token':0,'kind':'verify','round':0},"
    "{'sequence':0,'slot':0,'position':3,'token':1,'kind':'verify','round':0}],"
    "'rounds':[{'sequence':0,'round':0,'position':2,'drafts':[1],'accepted':1,"
    "'emitted':[1,3],'forced':true}],'states':[{'sequence':0,'position':2}]},"
    "{'step':2,'rows':[{'sequence':1,'slot':1,'position':2,'token':3,'kind':'prompt'}],"
    "'sampling':[{'sequence':1,'temperature':0.5,'top_k':40,'top_p':0.9,'min_p':0,"
    "'repetition_penalty':1.1,'presence_penalty':-1,'frequency_penalty':0.5,'penalty_window':64,"
    "'sampler':'vllm','generator':'torch_cpu','seed':42}],"
    "'prefixes':[{'sequence':1,'parent':0,'position':2,'tokens':[1,2]}]}]}";

typedef struct change {
    const char *old, *new;
} change;

static const change wrong[] = {
    {"'version':3", "'version':4"},
    {"'version':3", "'version':0"},
    {"'version':3,", ""},
    {"'version':3", "'version':1"}, /* these keys need version 2 or 3 */
    {"'version':3", "'version':2"},
    {"'version':3,'spec':2,'engine':'mine','profile':'hf','rollback':'replay','drafter':'own',"
     "'functions':'libm','delta_chunk':64,'prefix':'block','prefix_block':2,",
     "'version':2,'engine':'mine',"}, /* a parent needs version 3 */
    {"'prefix':'block'", "'prefix':'page'"},
    {"'prefix':'block'", "'prefix':'full'"}, /* has no block */
    {"'prefix':'block',", ""},
    {"'prefix_block':2,", ""},
    {"'prefix_block':2", "'prefix_block':0"},
    {"'prefix_block':2", "'prefix_block':1048577"},
    {"'prefixes':[", "'prefix':["},
    {"'parent':0,", ""},
    {"'parent':0,", "'parent':-1,"},
    {"'parent':0,", "'parents':0,"},
    {"'parent':0,'position':2", "'parent':0,'position':0"},
    {"'parent':0,'position':2", "'parent':0"},
    {"'tokens':[1,2]", "'tokens':[1,-2]"},
    {"'tokens':[1,2]", "'tokens':[]"},
    {"'temperature':0.5", "'temperature':-0.5"},
    {"'temperature':0.5", "'temperature':'hot'"},
    {"'temperature'", "'temp'"},
    {"'top_k':40", "'top_k':-1"},
    {"'top_k':40", "'top_k':40.5"},
    {"'top_p':0.9", "'top_p':0"},
    {"'top_p':0.9", "'top_p':1.1"},
    {"'min_p':0", "'min_p':2"},
    {"'repetition_penalty':1.1", "'repetition_penalty':0"},
    {"'penalty_window':64", "'penalty_window':-1"},
    {"'sampler':'vllm'", "'sampler':'mine'"},
    {"'generator':'torch_cpu'", "'generator':'mine'"},
    {"'seed':42", "'seed':-1"},
    {"'seed':42", "'seed':'42'"},
    {"'sampling':[{'sequence':1,", "'sampling':[{"},
    {"'format':'samebit-trace'", "'format':'trace'"},
    {"'rollback':'replay'", "'rollback':'copies'"},
    {"'rollback':'replay'", "'rollback':''"},
    {"'rollback':'replay'", "'rollback':1"},
    {"'rollback'", "'roll_back'"},
    {"'drafter':'own'", "'drafter':'eagle'"},
    {"'drafter':'own'", "'drafter':true"},
    {"'functions':'libm'", "'functions':3"},
    {"'functions':'libm'", "'functions':'a name that is longer than 31 bytes'"},
    {"'delta_chunk':64", "'delta_chunk':0"},
    {"'delta_chunk':64", "'delta_chunk':65"},
    {"'delta_chunk':64", "'delta_chunk':1024"},
    {"'forced':true", "'forced':1"},
    {"'forced':true", "'forces':true"},
    {"'engine':'mine'", "'engine':''"},
    {"'engine':'mine',", ""},
    {"'level':2", "'level':5"},
    {"'vocab_size':4", "'vocab_size':0"},
    {"0123456789abcdef0", "0123456789ABCDEF0"},
    {"'kind':'verify'", "'kind':'vrfy'"},
    {"'kind':'verify',", ""},
    {"'slot':0", "'slot':-1"},
    {"'position':1", "'position':'1'"},
    {"'emitted':[1,3]", "'emitted':[]"},
    {"'drafts':[1]", "'drafts':[1,2,3,1,2,3,1,2,3]"},
    {"'accepted':1,", ""},
    {"'states':[", "'state':["},
    {"'note'", "'remark'"},
};

static const change benign[] = {
    {"'rollback':'replay',", ""},
    {"'rollback':'replay'", "'rollback':'slots'"},
    {"'rollback':'replay'", "'rollback':'snapshots'"},
    {"'drafter':'own'", "'drafter':'external'"},
    {"'drafter':'own',", ""},
    {"'functions':'libm',", ""},
    {"'delta_chunk':64", "'delta_chunk':512"},
    {"'delta_chunk':64,", ""},
    {"'forced':true", "'forced':false"},
    {",'forced':true", ""},
    {"'version':3,'spec':2,'engine':'mine','profile':'hf','rollback':'replay','drafter':'own',"
     "'functions':'libm','delta_chunk':64,'prefix':'block','prefix_block':2,",
     "'version':3,'engine':'mine',"},
    {"'prefix':'block'", "'prefix':'checkpoint'"},
    {"'prefix':'block','prefix_block':2", "'prefix':'checkpoint'"},
    {"'prefix':'block','prefix_block':2", "'prefix':'full'"},
    {",'tokens':[1,2]", ""},
    {",'prefixes':[{'sequence':1,'parent':0,'position':2,'tokens':[1,2]}]", ""},
    {"'slot':0,", ""},
    {"'seed':42", "'seed':null"},
    {"'temperature':0.5", "'temperature':2"},
    {"'temperature':0.5,'top_k':40,'top_p':0.9,'min_p':0,", ""},
    {"'presence_penalty':-1", "'presence_penalty':0.25"},
    {",'generator':'torch_cpu','seed':42", ""},
};

/* `list` with the first c->old replaced, and " for '. */
static char *planted(const change *c)
{
    const char *at = strstr(list, c->old);
    assert_non_null(at);
    size_t n = strlen(list) + strlen(c->new) + 1;
    char *text = malloc(n);
    assert_non_null(text);
    snprintf(text, n, "%.*s%s%s", (int)(at - list), list, c->new, at + strlen(c->old));
    for (char *p = text; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    return text;
}

static void check_both(const json_t *schema, const char *dir, const change *c, int right)
{
    char why[512] = "";
    sb_error err = {""};
    sb_trace *t = NULL;
    char *text = planted(c);
    json_t *document = json_loads(text, 0, NULL);
    scratch_write_json(dir, "trace.json", text);
    int read = sb_trace_open(dir, &t, &err) == SB_OK;
    if (fits(schema, document, why, sizeof why) != right)
        fail_msg("the schema, of %s for %s: %s", c->new, c->old, why);
    if (read != right)
        fail_msg("the reader, of %s for %s: %s", c->new, c->old, err.text);
    sb_trace_close(t);
    json_decref(document);
    free(text);
}

TEST(test_schema_planted)
{
    scratch_path dir = scratch_new();
    json_t *schema = schema_of();
    const change none = {"'note'", "'note'"};
    check_both(schema, dir.text, &none, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_both(schema, dir.text, &wrong[i], 0);
    for (size_t i = 0; i < sizeof benign / sizeof *benign; i++)
        check_both(schema, dir.text, &benign[i], 1);
    json_decref(schema);
    scratch_remove(dir.text);
}
