"""What all runs of vLLM on the CPU have in common."""

import json
import os

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",  # threads that wait for each other are slow on busy processors
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
LIKELIEST = 5  # log-probabilities kept per row
CONTEXT = 512  # positions of a sequence
AT_ONCE = 8  # requests at the same time
COUNTERS = {
    "rounds": "vllm:spec_decode_num_drafts",
    "drafted": "vllm:spec_decode_num_draft_tokens",
    "accepted": "vllm:spec_decode_num_accepted_tokens_per_pos",
}


def settings(case, checkpoint):
    """The arguments of vllm.LLM for a case; the server has options of the same names."""
    found = {"skip_tokenizer_init": True, "enforce_eager": True, "max_model_len": CONTEXT, "seed": 42}
    found |= {"enable_prefix_caching": False, "max_num_seqs": AT_ONCE} | case.get("settings", {})
    if case.get("draft"):
        found["speculative_config"] = {"method": "mtp", "num_speculative_tokens": case["draft"]}
    drafter = case.get("drafter", "")
    if os.path.isdir(drafter):
        found["speculative_config"] |= {"method": "eagle3", "model": os.path.abspath(drafter)}
    elif drafter:
        least, most = drafter.removeprefix("ngram:").split("-")
        found["speculative_config"] |= {"method": "ngram", "prompt_lookup_min": int(least), "prompt_lookup_max": int(most)}
    with open(os.path.join(checkpoint, "config.json"), encoding="utf-8") as config:
        if "vision_config" in json.load(config):
            found["limit_mm_per_prompt"] = {"image": 0, "video": 0}
    return found
