/* structure.c - checks 1 and 2: files and index. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/overlay.h"
#include "ref/container/show.h"
#include "ref/container/survey.h"
#include "tools/check/scan/group.h"
#include "tools/check/judge/held_by.h"
#include "tools/check/judge/structure.h"

/* How many problems of each kind are reported one by one. */
enum { TOLD = 16, HEAD_TOLD = 3 };

static const sb_level levels[SB_CHECK_PROBLEMS] = {
    [SB_PROBLEM_FILE] = SB_LEVEL_fatal,         [SB_PROBLEM_UNREAD] = SB_LEVEL_fatal,
    [SB_PROBLEM_INDEX] = SB_LEVEL_fatal,        [SB_PROBLEM_NO_FILE] = SB_LEVEL_fatal,
    [SB_PROBLEM_STRAY] = SB_LEVEL_error,        [SB_PROBLEM_UNINDEXED] = SB_LEVEL_error,
    [SB_PROBLEM_LOST] = SB_LEVEL_fatal,         [SB_PROBLEM_TWIN_EQUAL] = SB_LEVEL_error,
    [SB_PROBLEM_TWIN_DIFFERS] = SB_LEVEL_fatal,
};

_Static_assert(SB_PROBLEM_TWIN_DIFFERS + 1 == SB_CHECK_PROBLEMS, "a kind of problem is missing");

/* V-1: "each file that breaks a rule is named with the first rule that it breaks"
 * V-2: "A tensor that the index lacks, in a file that the index names, is an ERROR" */
void sb_check_problem(void *ctx, int problem, const char *file, const char *tensor,
                      const char *message)
{
    sb_check *check = ctx;
    if (problem == SB_PROBLEM_NO_FILE || problem == SB_PROBLEM_STRAY)
        return; /* sb_check_files reports these, with the content of the files */
    check->unread |= problem == SB_PROBLEM_UNREAD;
    check->told_mtp[problem] += tensor && strncmp(tensor, "mtp.", 4) == 0;
    if (check->told[problem]++ >= TOLD)
        return;
    sb_check_find(check, problem <= SB_PROBLEM_UNREAD ? 1 : 2, levels[problem],
                  tensor ? tensor : "", "%s: %s", SB_SHOW(file), message);
}

static void tell_rest(sb_check *check)
{
    for (unsigned p = 0; p < SB_CHECK_PROBLEMS; p++)
        if (check->told[p] > TOLD)
            sb_check_find(check, p <= SB_PROBLEM_UNREAD ? 1 : 2, levels[p], "",
                          "and %zu more of this kind, %zu in all, %zu of them mtp.*",
                          check->told[p] - TOLD, check->told[p], check->told_mtp[p]);
}

/* Reports files that the index names and that are missing, or that exist and cannot be read. */
static void tell_absent(sb_check *check, sb_file_state state)
{
    sb_held_by held;
    sb_files_text files;
    char fetch[400];
    size_t count = sb_files_in_state(check, state, &files);
    if (count == 0)
        return;
    sb_held_by_files(check, state, &held);
    if (*files.patterns)
        snprintf(fetch, sizeof fetch, "hf download REPO%s", files.patterns);
    else
        snprintf(fetch, sizeof fetch,
                 "hf download REPO --include '*.safetensors' (files that are here are not "
                 "downloaded again)");
    sb_check_find(
        check, 2, SB_LEVEL_fatal, "",
        "%zu of %zu files %s: %s; the index places %zu tensors there: %s; to get them: %s", count,
        sb_checkpoint_index(check->self.checkpoint)->shard_count,
        state == SB_FILE_MISSING ? "are missing" : "cannot be read", files.names, held.tensors,
        held.text, fetch);
}

/* V-2: "The check finds a lost MTP head this way, by its first tensor" - "" if the file has no part
 * of a head. Puts the first few names into the text. */
static const char *head_of(const sb_checkpoint *c, uint32_t shard, char *text, size_t size)
{
    const char *first = "";
    size_t count = 0, used = 0;
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        if (t->shard != shard || strncmp(t->name, "mtp.", 4) != 0)
            continue;
        first = *first ? first : t->name;
        if (count++ < HEAD_TOLD && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%.100s", used ? ", " : "; ",
                                     SB_SHOW(t->name));
    }
    if (count > HEAD_TOLD && used < size)
        snprintf(text + used, size - used, " and %zu more", count - HEAD_TOLD);
    return first;
}

/* Reports a file that the index does not name, with the tensors that only it holds. */
static void tell_stray(sb_check *check, sb_groups *groups, uint32_t shard)
{
    const sb_checkpoint *c = check->self.checkpoint;
    const char *name = sb_checkpoint_shard_name(c, shard);
    sb_held_by held;
    char head[400] = "";
    if (sb_file_is_named(check, name))
        return;
    sb_held_by_shard(check, shard, &held);
    sb_group_find(groups, check, 2, SB_LEVEL_error, head_of(c, shard, head, sizeof head),
                  sb_checkpoint_index(c) ? "files that the index never names"
                                         : "files, and no index that names them",
                  "%s: %s names this file; %zu tensors are in no other file%s%s%s%s", SB_SHOW(name),
                  sb_checkpoint_index(c) ? "the index never" : "there is no index that",
                  held.tensors, held.tensors ? ": " : "", held.text, head,
                  held.mtp ? "; engines that follow the index load no MTP head" : "");
}

/* V-2: "Files that no index entry names are an ERROR each"
 * V-2: "metadata.total_size is never a reason to refuse" */
void sb_check_files(sb_check *check)
{
    const sb_checkpoint *c = check->self.checkpoint;
    sb_groups groups = {0};
    uint64_t declared;
    tell_rest(check);
    tell_absent(check, SB_FILE_MISSING);
    tell_absent(check, SB_FILE_UNREADABLE);
    /* a damaged index is already reported, and would leave every file unnamed */
    if (strcmp(sb_checkpoint_path(c), sb_checkpoint_folder(c)) == 0 &&
        !check->told[SB_PROBLEM_INDEX])
        for (uint32_t i = 0; i < sb_checkpoint_own_shards(c); i++)
            tell_stray(check, &groups, i);
    sb_groups_end(&groups, check);
    int overlaid = sb_checkpoint_own_shards(c) < sb_checkpoint_shards(c);
    if (!overlaid && sb_is_whole(check) && sb_checkpoint_declared_bytes(c, &declared) &&
        declared != sb_checkpoint_bytes(c))
        sb_check_find(check, 2, SB_LEVEL_info, "",
                      "metadata.total_size is %" PRIu64 ", but the tensors have %" PRIu64
                      " bytes; some programs write other sums there",
                      declared, sb_checkpoint_bytes(c));
}
