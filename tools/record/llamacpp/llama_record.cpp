// Runs llama.cpp on token ids and records the values of its graphs; to_trace.py makes a trace from
// them.
//
//   llama_record [--logits] [--sample] OUT IDS CALLS [options of llama.cpp, -m MODEL first of all]
//
// --logits: of the trunk's values only the embeddings, with which a micro-batch begins, and the logits.
// IDS is 1,2,3; CALLS, 1+1+1, is the number of ids per call. Then -n tokens are generated: greedy ones, or with
// --sample those that llama.cpp's sampler draws with its options (--temp, --top-k, -s SEED, ...), which are recorded.
// With --spec-type draft-mtp the MTP head drafts them in rounds, by llama.cpp's own code.
//
// OUT has one line of JSON per event; the bytes of a tensor follow its line. A tensor belongs to
// the last call before it; "ctx" of a call is 0 for the trunk and 1 for the MTP head.

#include "arg.h"
#include "common.h"
#include "ggml.h"
#include "llama.h"
#include "sampling.h"
#include "speculative.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

namespace {

struct Recorder {
    FILE * out = nullptr;
    bool on = false; // building and warm-up are not recorded
    bool logits = false;

    [[noreturn]] static void fail(const char * why) {
        fprintf(stderr, "llama_record: %s\n", why);
        exit(1);
    }

    void line(const std::string & text) const {
        if (fprintf(out, "%s\n", text.c_str()) < 0) {
            fail("cannot write");
        }
    }

    // Values that are recorded: numbers with a name.
    bool wants(const ggml_tensor * t) const {
        static const char * const few[] = {"model.input_embed", "model.embed_tokens", "embd", "result_output"};
        const bool known = t->name[0] && (t->type == GGML_TYPE_F32 || t->type == GGML_TYPE_I32);
        return on && known && (!logits || std::find(std::begin(few), std::end(few), std::string(t->name)) != std::end(few));
    }

    void finish() {
        if (fclose(out) != 0) {
            fail("cannot write");
        }
    }
};

std::string list_of(const std::vector<int> & values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); i++) {
        text += (i ? "," : "") + std::to_string(values[i]);
    }
    return text + "]";
}

std::vector<int> numbers(const char * text, char between) {
    std::vector<int> found;
    for (const char * at = text; *at;) {
        char * end = nullptr;
        const long value = strtol(at, &end, 10);
        if (end == at || (*end && *end != between)) {
            Recorder::fail("IDS or CALLS is not a list of numbers");
        }
        found.push_back((int) value);
        at = *end ? end + 1 : end;
    }
    return found;
}

// The elements in the order of their indices for any strides, because tensors may be views.
void write_values(const ggml_tensor * t, FILE * out) {
    const size_t size = ggml_element_size(t);
    std::vector<char> row((size_t) t->ne[0] * size);
    for (int64_t i3 = 0; i3 < t->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < t->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < t->ne[1]; i1++) {
                const char * from =
                    (const char *) t->data + (size_t) i3 * t->nb[3] + (size_t) i2 * t->nb[2] + (size_t) i1 * t->nb[1];
                for (int64_t i0 = 0; i0 < t->ne[0]; i0++) {
                    memcpy(&row[(size_t) i0 * size], from + (size_t) i0 * t->nb[0], size);
                }
                if (fwrite(row.data(), 1, row.size(), out) != row.size()) {
                    Recorder::fail("cannot write");
                }
            }
        }
    }
}

// llama.cpp's callback: called for every node to ask whether it is recorded, then again with its
// values.
bool seen(ggml_tensor * t, bool ask, void * data) {
    auto * recorder = (Recorder *) data;
    const bool wanted = recorder->wants(t);
    if (ask || !wanted) {
        return ask ? wanted : true;
    }
    const std::vector<int> shape = {(int) t->ne[3], (int) t->ne[2], (int) t->ne[1], (int) t->ne[0]};
    recorder->line(std::string("{\"tensor\":\"") + t->name + "\",\"op\":\"" + ggml_op_name(t->op) +
                   "\",\"type\":\"" + ggml_type_name(t->type) + "\",\"shape\":" + list_of(shape) + "}");
    write_values(t, recorder->out);
    return true;
}

struct Engine {
    Recorder recorder;
    llama_context * ctx = nullptr;
    common_speculative * spec = nullptr;
    llama_context * ctx_mtp = nullptr;
    common_sampler_ptr sampler; // null: greedy
    int past = 0;
    int vocab = 0;

    // One call of the trunk, with logits of every row.
    void feed(const std::vector<int> & ids, const char * kind) {
        common_batch batch(ctx);
        std::vector<int> positions;
        for (int id : ids) {
            positions.push_back(past + (int) positions.size());
            batch.add(id, positions.back(), 0, true);
        }
        recorder.line(std::string("{\"call\":\"") + kind + "\",\"ctx\":0,\"tokens\":" + list_of(ids) +
                      ",\"positions\":" + list_of(positions) + "}");
        if (llama_process(ctx, LLAMA_PROCESS_TYPE_DECODE, batch.get()) != 0) {
            Recorder::fail("llama_process failed");
        }
        if (spec) {
            recorder.line("{\"call\":\"fill\",\"ctx\":1}");
            if (!common_speculative_process(spec, batch)) {
                Recorder::fail("common_speculative_process failed");
            }
        }
        past += (int) ids.size();
    }

    int largest(int row) const {
        const float * logits = llama_get_logits_ith(ctx, row);
        return (int) (std::max_element(logits, logits + vocab) - logits);
    }

    int next(int row) {
        if (!sampler) {
            return largest(row);
        }
        const int token = common_sampler_sample(sampler.get(), ctx, row);
        common_sampler_accept(sampler.get(), token, true);
        return token;
    }

    std::vector<int> drafts(const std::vector<int> & before, int last, int most) {
        llama_tokens prompt(before.begin(), before.end());
        llama_tokens found;
        common_speculative_get_draft_params(spec, 0) = {true, most, past, last, &prompt, &found};
        recorder.line("{\"call\":\"draft\",\"ctx\":1}");
        common_speculative_draft(spec);
        llama_memory_seq_rm(llama_get_memory(ctx_mtp), 0, past, -1);
        return {found.begin(), found.end()};
    }

    // The drafts that equal the token that the row before them gives, and the token after them.
    std::vector<int> accepted(const std::vector<int> & drafted) {
        std::vector<int> emitted;
        for (size_t row = 0; row <= drafted.size(); row++) {
            emitted.push_back(next((int) row));
            if (row < drafted.size() && emitted.back() != drafted[row]) {
                break;
            }
        }
        return emitted;
    }

    void generate(std::vector<int> all, int count) {
        int last = next(-1);
        if (spec) {
            common_speculative_begin(spec, 0, llama_tokens(all.begin(), all.end()));
        }
        for (int round = 0; count > 1; round++) {
            std::vector<int> drafted = spec ? drafts(all, last, count - 1) : std::vector<int>();
            std::vector<int> rows = drafted;
            rows.insert(rows.begin(), last);
            const int first = past;
            feed(rows, spec ? "verify" : "decode");
            const std::vector<int> emitted = accepted(drafted);
            const int kept = (int) emitted.size();
            recorder.line("{\"round\":" + std::to_string(round) + ",\"position\":" + std::to_string(first) +
                          ",\"drafts\":" + list_of(drafted) + ",\"accepted\":" + std::to_string(kept - 1) +
                          ",\"emitted\":" + list_of(emitted) + "}");
            if (spec) {
                common_speculative_accept(spec, 0, (uint16_t) (kept - 1));
            }
            past = first + kept;
            if (!llama_memory_seq_rm(llama_get_memory(ctx), 0, past, -1)) {
                Recorder::fail("llama.cpp cannot roll the memory of this model back to the accepted drafts");
            }
            if (spec) {
                llama_memory_seq_rm(llama_get_memory(ctx_mtp), 0, past, -1);
            }
            all.push_back(last);
            all.insert(all.end(), emitted.begin(), emitted.end() - 1);
            last = emitted.back();
            count -= kept;
        }
    }
};

// A trace declares the default chain (U-12): other steps must be off.
bool is_default_chain(const common_params_sampling & s) {
    const common_params_sampling usual;
    return s.samplers == usual.samplers && s.mirostat == 0 && s.adaptive_target < 0 && s.dynatemp_range <= 0 &&
           s.xtc_probability <= 0 && s.typ_p >= 1 && s.dry_multiplier == 0 && s.top_n_sigma <= 0 && s.min_keep == 0 &&
           s.logit_bias.empty() && !s.ignore_eos && s.grammar.empty() && !s.backend_sampling;
}

std::string text_of(float value) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", (double) value);
    return text;
}

void begin_sampler(Engine & engine, const llama_model * model, common_params & params, const std::vector<int> & ids) {
    common_params_sampling & s = params.sampling;
    if (!is_default_chain(s) || s.seed == LLAMA_DEFAULT_SEED || s.temp <= 0) {
        Recorder::fail("--sample: needs the default chain, a seed (-s) and a temperature above 0");
    }
    engine.sampler.reset(common_sampler_init(model, s));
    if (!engine.sampler) {
        Recorder::fail("--sample: no sampler");
    }
    for (int id : ids) {
        common_sampler_accept(engine.sampler.get(), id, false);
    }
    const bool penalties = s.penalty_last_n > 0; // a window of 0 turns them off
    engine.recorder.line(
        "{\"sampling\":{\"sequence\":0,\"temperature\":" + text_of(s.temp) + ",\"top_k\":" +
        std::to_string(std::max(s.top_k, 0)) + ",\"top_p\":" + text_of(s.top_p) + ",\"min_p\":" + text_of(s.min_p) +
        ",\"repetition_penalty\":" + text_of(penalties ? s.penalty_repeat : 1) + ",\"presence_penalty\":" +
        text_of(penalties ? s.penalty_present : 0) + ",\"frequency_penalty\":" +
        text_of(penalties ? s.penalty_freq : 0) + ",\"penalty_window\":" + std::to_string(std::max(s.penalty_last_n, 0)) +
        ",\"sampler\":\"llamacpp\",\"seed\":" + std::to_string(common_sampler_get_seed(engine.sampler.get())) +
        ",\"generator\":\"mt19937\"}}");
}

void run(Engine & engine, common_params & params, const std::vector<int> & ids, const std::vector<int> & calls) {
    engine.recorder.on = true;
    size_t at = 0;
    for (int rows : calls) {
        if (rows < 1 || at + (size_t) rows > ids.size()) {
            Recorder::fail("a call of CALLS has no rows, or CALLS has more rows than IDS has tokens");
        }
        engine.feed({ids.begin() + (long) at, ids.begin() + (long) at + rows}, "prompt");
        at += (size_t) rows;
    }
    if (params.n_predict > 0) {
        engine.generate({ids.begin(), ids.begin() + (long) at}, params.n_predict);
    }
    engine.recorder.line("{\"end\":true}");
    engine.recorder.finish();
}

} // namespace

int main(int argc, char ** argv) {
    Engine engine;
    bool sample = false;
    for (; argc > 1 && !strncmp(argv[1], "--", 2); argc--, argv++) {
        if (!strcmp(argv[1], "--logits")) {
            engine.recorder.logits = true;
        } else if (!strcmp(argv[1], "--sample")) {
            sample = true;
        } else {
            break;
        }
    }
    if (argc < 5) {
        Recorder::fail("usage: llama_record [--logits] [--sample] OUT IDS CALLS -m MODEL [options of llama.cpp]");
    }
    const std::vector<int> ids = numbers(argv[2], ',');
    const std::vector<int> calls = numbers(argv[3], '+');
    engine.recorder.out = fopen(argv[1], "wb");
    if (!engine.recorder.out) {
        Recorder::fail("cannot write OUT");
    }
    argv[3] = argv[0];
    common_params params;
    common_init();
    if (!common_params_parse(argc - 3, argv + 3, params, LLAMA_EXAMPLE_SPECULATIVE)) {
        return 2;
    }
    llama_backend_init();
    params.cb_eval = seen;
    params.cb_eval_user_data = &engine.recorder;
    params.warmup = false;
    auto init = common_init_from_params(params);
    engine.ctx = init->context();
    if (!engine.ctx) {
        Recorder::fail("cannot load the model");
    }
    engine.vocab = llama_vocab_n_tokens(llama_model_get_vocab(init->model()));
    engine.recorder.line("{\"engine\":\"llama.cpp " LLAMA_RECORD_COMMIT "\",\"vocab\":" +
                         std::to_string(engine.vocab) + "}");
    if (sample) {
        begin_sampler(engine, init->model(), params, ids);
    }
    common_speculative_init_result_ptr mtp;
    if (common_speculative_n_max(&params.speculative) > 0) {
        common_params drafting = common_base_params_to_speculative(params);
        mtp = common_speculative_init_from_params(drafting, init->model(), engine.ctx);
        engine.ctx_mtp = mtp->context();
        params.speculative.draft.ctx_tgt = engine.ctx;
        params.speculative.draft.ctx_dft = engine.ctx_mtp;
        engine.spec = common_speculative_init(params.speculative, 1);
        if (!engine.spec || !engine.ctx_mtp) {
            Recorder::fail("the model has no MTP head that llama.cpp can load");
        }
    }
    run(engine, params, ids, calls);
    common_speculative_free(engine.spec);
    llama_backend_free();
    return 0;
}
