#include "tools/cli/continued.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"

sb_status sb_state_resume(sb_session *session, sb_state_file *from, const char *path,
                          const sb_state_origin *origin, sb_error *err)
{
    sb_state *state = NULL;
    sb_status status = sb_state_file_take(from, path, sb_session_model(session), origin,
                                          sb_session_has_mtp(session), &state, err);
    if (!status)
        status = sb_session_set_state(session, state, err);
    sb_state_free(state);
    return status;
}

void sb_state_note_entries(const sb_state_file *from, const char *path)
{
    if (from->drafter.hex[0])
        fprintf(stderr,
                "samebit: note: %s has entries of a drafter; this run has none, and leaves them "
                "out\n",
                SB_SHOW(path));
}

sb_status sb_state_join(const sb_state_file *from, uint64_t before, const uint32_t *ids,
                        size_t count, uint32_t **out, sb_error *err)
{
    if (before && (!from || !from->tokens))
        return SB_OK;
    *out = sb_alloc((size_t)before + count, sizeof **out);
    if (!*out)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    if (before)
        memcpy(*out, from->tokens, (size_t)before * sizeof **out);
    memcpy(*out + before, ids, count * sizeof **out);
    return SB_OK;
}
