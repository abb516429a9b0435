"""Records vLLM's inner values: vllm_record.py CKPT OUT DRAFTS [FAULT...], in the environment of vLLM.

vllm_record.py CKPT OUT CASE.json records the prompts of a case (cases.py) with its drafts and settings, into OUT.

OUT/none is the trace of the unchanged engine, OUT/FAULT the trace with a planted mistake (vllm_faults.py), each from
its own process. Skips a fault whose folder exists. recording.py has the prompts.
"""

import json
import os
import sys

from vllm_settings import ENVIRONMENT, settings

os.environ |= ENVIRONMENT | {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # passes a function to the worker, which is this process
}
from recording import GENERATE, PROMPTS, chosen, is_mixture, record_all  # noqa: E402


def record(checkpoint, folder, fault, case):
    """Records one trace. case has prompts, generate, draft, and may have settings."""
    import vllm
    from vllm_faults import FAULTS

    llm = vllm.LLM(
        model=checkpoint,
        async_scheduling=False,
        worker_extension_cls="vllm_plugin.Recorder",
        **settings(case, checkpoint),
    )
    if fault != "none":
        llm.collective_rpc(lambda worker: FAULTS[fault](worker.model_runner))
    llm.collective_rpc("samebit_start", args=(folder, True))
    sampling = vllm.SamplingParams(temperature=0, max_tokens=case["generate"], ignore_eos=True, detokenize=False)
    llm.generate([{"prompt_token_ids": ids} for ids in case["prompts"]], sampling, use_tqdm=False)
    llm.collective_rpc("samebit_stop")


def main():
    """Starts a process for each fault."""
    checkpoint, out, drafts, *faults = sys.argv[1:]
    if drafts.endswith(".json"):
        with open(drafts, encoding="ascii") as file:
            return record(checkpoint, out, "none", json.load(file))
    case = {"prompts": PROMPTS, "generate": GENERATE, "draft": int(drafts)}
    import vllm  # noqa: F401  # pylint: disable=unused-import  # once, before the processes
    from vllm_faults import FAULTS, OF_MIXTURES

    can = [name for name, fault in FAULTS.items() if is_mixture(checkpoint) or fault not in OF_MIXTURES]
    record_all(out, chosen(faults, FAULTS, can), lambda folder, fault: record(checkpoint, folder, fault, case))
    return None


main()
