"""Serves a tiny random model of each family that vLLM serves and transformers can build.

    python -m tests.support.models.served_families REPORT ARCHITECTURE=MODEL_TYPE...

in the vLLM runtime, without a GPU. REPORT gets a JSON object with a `Served` for each architecture.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import tempfile
import traceback
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import vllm.v1.engine.utils as engine_processes
import vllm.v1.worker.cpu_worker  # noqa: F401 - what an engine imports, before the fork
from transformers import AutoModelForCausalLM
from vllm import LLM, SamplingParams
from vllm.model_executor.models import registry

from services.inference.vllm.cpu_kernels import mend_kernels
from services.inference.vllm.loading import mend_loading
from tests.support.models.tiny_configs import VOCABULARY, Sizes, tiny_config

LIMIT_SECONDS = 120.0
"""For one family."""
PROMPT = (5, 17, 42, 99, 3, 250, 128, 64, 7, 31, 200)
NEW_TOKENS = 3
CACHE_BYTES = 64 << 20
SIZES: Sizes = (
    (r"qk_head_dim", 128),
    (r"attention_head_dim", 64),
    (r"attention_hidden_size|mamba_d_ssm", 256),
    (r"kv_lora_rank", 512),
    (r"qk_nope_head_dim|qk_rope_head_dim", 64),
    (r"linear_(key|value)_head_dim", 128),
    (r".*(v_head_dim|rotary_dim|rope_head_dim)$", 32),
    (r".*(head_dim|head_size|headdim|mamba_d_head|kv_channels)$", 32),
    (r"ffn_hidden_size", 512),
    (r".*(hidden_size|d_model|n_embd|embed_dim|word_embed_proj_dim|hidden_dim)$", 128),
)
"""The smallest heads that vLLM's kernels for CPUs take, and what follows from them."""
PUBLISHED: dict[str, dict[str, Any]] = {
    "afmoe": {"n_group": 1, "topk_group": 1, "score_func": "sigmoid", "route_norm": True},
    "deepseek_v2": {"n_group": 1, "topk_group": 1},
    "deepseek_v3": {"topk_method": "noaux_tc", "scoring_func": "sigmoid"},
    "glm4_moe": {"head_dim": 32},
    "gpt_oss": {"layer_types": ["sliding_attention", "full_attention"] * 2},
    "glm4_moe_lite": {"first_k_dense_replace": 1, "topk_method": "noaux_tc"},
    "hy_v3": {
        "first_k_dense_replace": 1,
        "expert_hidden_dim": 96,
        "route_norm": True,
        "qk_norm": True,
    },
    "lfm2": {"block_dim": 128},
    "llama4_text": {"attention_chunk_size": 128},
    "longcat_flash": {
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
        "zero_expert_type": "identity",
    },
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [0, 1, 0, 0],
        "moe_layer_freq": [0, 1, 1, 1],
        "layernorm_epsilon": 1e-5,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4,
        "swa_head_dim": 32,
        "swa_v_head_dim": 32,
        "sliding_window_size": 8,
        "add_swa_attention_sink_bias": True,
        "partial_rotary_factor": 0.334,
        "rope_theta": 5e6,
        "swa_rope_theta": 1e4,
    },
    "minimax_m2": {"rotary_dim": 32, "scoring_func": "sigmoid", "use_routing_bias": True},
}
"""Fields of published files that vLLM reads and transformers has no default for; and a chunk that
is a block of vLLM's cache."""
GROWTH = 4.0
"""Initial weights have a deviation of .02; .08 keeps the size of 128 numbers."""
CHANGE = 0.1
"""Deviation of what is added to norms and biases: an engine without them answers differently."""


@dataclass
class Served:
    """What became of one: ``error`` says what failed in ``phase``. ``difference`` is the largest of
    the log-probabilities of the prompt and the greedy answer from transformers' own."""

    dtype: str
    phase: str = "build"
    error: str | None = None
    difference: float | None = None


def served(model_type: str, folder: Path, dtype: str) -> Served:
    """Build and save a model, let vLLM answer, and compare it with transformers."""
    found = Served(dtype)
    try:
        torch.manual_seed(0)
        config = tiny_config(model_type, SIZES)
        for name, value in PUBLISHED.get(model_type, {}).items():
            setattr(config, name, value)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        _spread(model.eval())
        model.save_pretrained(folder)
        found.phase = "load"
        engine = LLM(
            str(folder),
            skip_tokenizer_init=True,
            dtype=dtype,
            max_model_len=64,
            max_num_seqs=4,
            kv_cache_memory_bytes=CACHE_BYTES,
            enforce_eager=True,
            enable_prefix_caching=False,
            disable_log_stats=True,
        )
        found.phase = "answer"
        ids, log_probs = _answered(engine)
        found.phase = "compare"
        expected = _expected(model, ids)
        found.difference = float(np.abs(expected - log_probs).max())
        found.phase = "served"
    except Exception as error:  # what fails is the result
        lines = str(error).strip().splitlines() or [""]
        found.error = f"{type(error).__name__}: {lines[0][:200]}"
        traceback.print_exc()
    return found


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
def _spread(model: Any) -> None:
    """Grow the weights so that layers keep the size of what they are given, and tokens differ; and
    change what begins as ones or zeros, as those of norms, biases, and what chooses experts."""
    for name, parameter in model.named_parameters():
        if name.endswith("weight") and parameter.dim() > 1:
            parameter.mul_(GROWTH)
    for name, values in (*model.named_parameters(), *model.named_buffers()):
        if values.dim() == 1 and name.endswith(("weight", "bias")):
            values.add_(torch.randn_like(values), alpha=CHANGE)


def _answered(engine: LLM) -> tuple[list[int], Any]:
    """The prompt with its greedy answer, and the log-probabilities of all but the first."""
    sampling = SamplingParams(
        temperature=0.0,
        max_tokens=NEW_TOKENS,
        min_tokens=NEW_TOKENS,
        logprobs=0,
        prompt_logprobs=0,
        detokenize=False,
    )
    (result,) = engine.generate({"prompt_token_ids": list(PROMPT)}, sampling, use_tqdm=False)
    answer = result.outputs[0]
    ids = [*PROMPT, *answer.token_ids]
    told = [*result.prompt_logprobs[1:], *answer.logprobs]
    return ids, np.array([each[token].logprob for each, token in zip(told, ids[1:], strict=True)])


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
def _expected(model: Any, ids: list[int]) -> Any:
    tokens = torch.tensor([ids])
    logits = model(input_ids=tokens, use_cache=False).logits[0, :-1, :VOCABULARY].float()
    return logits.log_softmax(-1).gather(-1, tokens[0, 1:, None])[:, 0].numpy()


def _child(model_type: str, dtype: str, answer: Connection) -> None:
    os.setsid()
    folder = Path(tempfile.mkdtemp(prefix="temper-family-"))
    try:
        answer.send(asdict(served(model_type, folder, dtype)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tried(model_type: str, dtype: str = "float32") -> dict[str, Any]:
    """`served` in a process of its own, which is ended after `LIMIT_SECONDS`."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(model_type, dtype, sending))
    child.start()
    sending.close()
    try:
        if receiving.poll(LIMIT_SECONDS):
            found: dict[str, Any] = receiving.recv()
            return found
        return asdict(Served(dtype, "load", f"no answer within {LIMIT_SECONDS:.0f} s"))
    except EOFError:
        child.join(LIMIT_SECONDS)
        return asdict(Served(dtype, "load", f"the engine ended with {child.exitcode}"))
    finally:
        child.kill()
        child.join()


def main() -> None:
    """Try some families."""
    parser = argparse.ArgumentParser()
    parser.add_argument("report", type=Path)
    parser.add_argument("families", nargs="*", metavar="ARCHITECTURE=MODEL_TYPE")
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    for each in chosen.families:
        architecture, model_type = each.split("=")
        result = tried(model_type)
        if "BF16" in (result["error"] or ""):
            result = tried(model_type, "bfloat16")
        found[architecture] = result
        chosen.report.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    # Without a GPU, forking is safe and saves each engine its imports.
    engine_processes.get_mp_context = lambda: multiprocessing.get_context("fork")
    registry._run_in_subprocess = lambda inspect: inspect()
    mend_kernels()
    mend_loading()
    main()
