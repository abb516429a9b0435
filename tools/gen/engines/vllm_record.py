"""Records vLLM's inner values: vllm_record.py CKPT OUT DRAFTS [FAULT...], in the environment of vLLM.

OUT/none is the trace of the unchanged engine, OUT/FAULT the trace with a planted mistake (vllm_faults.py), each from
its own process. Skips a fault whose folder exists. PROMPTS=3 GENERATE=4 in the environment selects one prompt of
three tokens and four generated tokens (default: 5,9 and 8).
"""

import os
import pathlib
import sys

from vllm_settings import ENVIRONMENT, settings

os.environ |= ENVIRONMENT | {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # passes a function to the worker, which is this process
}
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "record"))
LENGTHS = [int(length) for length in os.environ.get("PROMPTS", "5,9").split(",")]
PROMPTS = [[(7 * i + 101 * number + 3) % 360 for i in range(length)] for number, length in enumerate(LENGTHS)]
GENERATE = int(os.environ.get("GENERATE", "8"))


def record(checkpoint, folder, drafts, fault):
    """Records one trace."""
    import vllm
    from vllm_faults import FAULTS

    llm = vllm.LLM(
        model=checkpoint,
        async_scheduling=False,
        worker_extension_cls="vllm_plugin.Recorder",
        **settings({"draft": drafts}, checkpoint),
    )
    if fault != "none":
        llm.collective_rpc(lambda worker: FAULTS[fault](worker.model_runner))
    llm.collective_rpc("samebit_start", args=(folder, True))
    sampling = vllm.SamplingParams(temperature=0, max_tokens=GENERATE, ignore_eos=True, detokenize=False)
    llm.generate([{"prompt_token_ids": ids} for ids in PROMPTS], sampling, use_tqdm=False)
    llm.collective_rpc("samebit_stop")


def main():
    """Starts a process for each fault."""
    checkpoint, out, drafts, *faults = sys.argv[1:]
    import vllm  # pylint: disable=unused-import
    from vllm_faults import FAULTS, OF_MIXTURES

    if unknown := set(faults) - {"none", *FAULTS}:
        raise SystemExit(f"vllm_faults.py has no {', '.join(sorted(unknown))}")
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    failed = 0
    mixture = "num_experts" in pathlib.Path(checkpoint, "config.json").read_text(encoding="utf-8")
    can = [name for name, fault in FAULTS.items() if mixture or fault not in OF_MIXTURES]
    for fault in faults or ["none", *can]:
        folder = f"{out}/{fault}"
        if os.path.exists(folder):
            continue
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                record(checkpoint, folder, int(drafts), fault)
                code = 0
            except Exception as error:  # pylint: disable=broad-except  # the others still run
                print(f"{fault}: {type(error).__name__}: {error}", flush=True)
                code = 1
            os._exit(code)  # ends all processes that vLLM started
        failed |= os.waitpid(child, 0)[1]
        print(f"done: {fault}", flush=True)
    sys.exit(failed != 0)


main()
