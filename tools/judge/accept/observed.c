#include "tools/judge/accept/observed.h"

#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/judge/accept/observed_parts.h"

const char *sb_engine_name(sb_engine engine)
{
    static const char *const names[] = {"vLLM", "SGLang", "llama-server"};
    return names[engine];
}

int sb_observed_add(uint64_t *sum, uint64_t more)
{
    if (more > SB_OBSERVED_MAX_COUNT || *sum > SB_OBSERVED_MAX_COUNT - more)
        return 1;
    *sum += more;
    return 0;
}

/* E-11: "Counters that contradict each other are refused" */
static sb_status check_sense(const sb_observed *o, const char *file, sb_error *err)
{
    uint64_t sum = 0;
    if (o->has_drafted && o->has_accepted && o->accepted > o->drafted)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: has more accepted tokens (%llu) than drafted tokens (%llu): are bonus "
                       "tokens counted as accepted?",
                       SB_SHOW(file), (unsigned long long)o->accepted,
                       (unsigned long long)o->drafted);
    if (o->has_rounds && o->has_drafted && o->drafted < o->rounds)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: has %llu drafted tokens in %llu rounds; expected at least one per "
                       "round",
                       SB_SHOW(file), (unsigned long long)o->drafted,
                       (unsigned long long)o->rounds);
    for (size_t j = 0; j < o->depths; j++) {
        uint64_t most = j ? o->by_depth[j - 1] : o->rounds;
        if ((j || o->has_rounds) && o->by_depth[j] > most)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: draft %zu was accepted %llu times, but the draft or round before "
                           "it only %llu times",
                           SB_SHOW(file), j + 1, (unsigned long long)o->by_depth[j],
                           (unsigned long long)most);
        sum += o->by_depth[j];
    }
    if (o->depths && o->has_accepted && sum != o->accepted)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: the counters by position add up to %llu accepted tokens, but the "
                       "total is %llu: were they read at different times?",
                       SB_SHOW(file), (unsigned long long)sum, (unsigned long long)o->accepted);
    return SB_OK;
}

sb_status sb_observed_parse(const char *text, size_t n, const char *file, sb_observed *out,
                            sb_error *err)
{
    size_t start = 0;
    *out = (sb_observed){.engine = SB_ENGINE_vllm};
    if (n > SB_OBSERVED_MAX_BYTES)
        return sb_fail(err, SB_ERR_INPUT, "%s: has %zu bytes; expected at most %d", SB_SHOW(file),
                       n, SB_OBSERVED_MAX_BYTES);
    while (start < n && strchr(" \t\r\n", text[start]) && text[start])
        start++;
    int json = start < n && (text[start] == '{' || text[start] == '[');
    sb_status status = json ? sb_observed_json(text, n, file, out, err)
                            : sb_observed_prometheus(text, n, file, out, err);
    return status ? status : check_sense(out, file, err);
}

sb_status sb_observed_load(const char *path, sb_observed *out, sb_error *err)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    *out = (sb_observed){.engine = SB_ENGINE_vllm};
    sb_status status = sb_read_file(path, SB_OBSERVED_MAX_BYTES, &bytes, &count, err);
    if (!status)
        status = sb_observed_parse((const char *)bytes, count, path, out, err);
    free(bytes);
    return status;
}
