"""The command and environment that a vLLM server is started with."""

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from services.contracts.base import JsonObject
from services.contracts.batches.offline_engine import MODULE, OfflineOptions
from services.contracts.engine import Drafts, LoraRank, VllmOptions
from services.contracts.errors import InvalidRequest
from services.core.artifacts import LoraAdapter, ModelSource, adapter_rank
from services.core.process.runtimes import Accelerator, Runtime, child_environment
from services.core.processors import has_native_bfloat16, usable_cores
from services.inference import exact as exact_arithmetic
from services.inference.vllm.model_config import (
    ModelConfig,
    cpu_cache_bytes,
    linear_modules,
    read_model_config,
)
from services.inference.vllm.tool_calls import tool_call_parser

TOP_K_LIMIT = 1024
"""Maximum number of alternatives per token on our servers; vLLM's default is 20."""


@dataclass(frozen=True)
class AdapterSlots:
    """Capacity for adapters loaded at run time: ``count`` at once, of at most this ``rank``."""

    rank: int
    count: int


@dataclass(frozen=True)
class Routes:
    """The routes that a server offers besides chat, all protected by its API key.

    ``tokens``: token ids in and out, with log-probabilities of the sampling distribution.
    ``weights``: development routes that pause the engine and swap its weights. ``adapters``: load
    adapters from folders at run time. ``sleep``: release GPU memory. ``guarded``: all routes but
    /health need the key, also those that vLLM leaves open; implied by the last three.
    ``tools``: chat reads tool calls, where the model's chat template has a known format.
    ``priorities``: of the requests that wait, those with the lowest ``priority`` go first.
    """

    tokens: bool = False
    weights: bool = False
    sleep: bool = False
    adapters: AdapterSlots | None = None
    guarded: bool = False
    tools: bool = False
    priorities: bool = False


HOST = "127.0.0.1"
CPU_ENTRY = "services.inference.vllm.cpu_entry"
EXACT_ENTRY = "services.inference.vllm.exact_entry"
GUARD = "services.inference.vllm.guard.Guard"
MENDED_WORKER = "services.inference.vllm.loading.MendedWorker"
WEIGHT_WORKER = "services.inference.weights.worker.WeightWorker"
WEIGHT_BACKEND = "temper"
SUFFIXES = "arctic_inference"
"""The package whose suffix trees vLLM uses."""
GIBIBYTE = 2**30
NO_ROUTES = Routes()
_KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(2 * 2**30),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}
"""Settings of glibc's malloc, by which freed activations stay with the process. Otherwise each
layer gets fresh pages, and clearing them takes the kernel a good part of the time."""


@dataclass(frozen=True)
class ServerCommand:
    """How to start a server. The key belongs to this server and is passed by environment only."""

    command: list[str]
    environment: dict[str, str] = field(repr=False)
    api_key: str = field(repr=False)


@dataclass(frozen=True)
class OfflineCommand:
    """How to start an engine without a server."""

    command: list[str]
    environment: dict[str, str] = field(repr=False)


def plan_launch(
    runtime: Runtime,
    model: ModelSource,
    served_name: str,
    adapters: Sequence[LoraAdapter],
    options: VllmOptions,
    *,
    port: int,
    scratch: Path,
    routes: Routes = NO_ROUTES,
    devices: Sequence[str] | None = None,
    exact: bool = False,
) -> ServerCommand:
    """Build the command of a server; ``scratch`` is a folder for sockets and other small files.

    ``devices`` are GPUs by index or UUID; None means all visible ones. An ``exact`` one computes
    what the learner does, bit by bit. Raises `InvalidRequest` for a missing folder, an adapter that
    cannot be served, drafts that the runtime cannot make, and an exact one on GPUs.
    """
    if model.path is not None and not model.path.is_dir():
        raise InvalidRequest(f"model folder {model.path} does not exist", param="model")
    key = secrets.token_urlsafe(32)
    on_cpu = runtime.accelerator == Accelerator.CPU
    if devices is None:
        devices = _visible_devices()
    if exact:
        if not on_cpu:
            raise InvalidRequest("exact_on_policy is for hosts without GPUs", param="method")
        options = options.model_copy(update={"dtype": "float32", "enforce_eager": True})
    _check_drafts(runtime, options)
    common = _common_arguments(model, served_name, options, port)
    common += _lora(adapters, options, routes.adapters) + _route_arguments(routes)
    if routes.tools and (parser := tool_call_parser(model.tokenizer or model.path)):
        common += ["--enable-auto-tool-choice", f"--tool-call-parser={parser}"]
    if on_cpu and routes.adapters and (modules := linear_modules(model.path)):
        # vLLM 0.32 crashes on prompt log-probabilities if the output layer may have an adapter,
        # which is its default.
        common += ["--lora-target-modules", *modules]
    entry, hardware = (
        _on_cpu(model, options) if on_cpu else _on_gpu(model, options, routes, len(devices))
    )
    extra = {"VLLM_API_KEY": key, "VLLM_NO_USAGE_STATS": "1", "NO_COLOR": "1"}
    if exact:
        entry = [EXACT_ENTRY, *entry[1:]]
        hardware += ["--model-impl", "transformers"]
        extra |= exact_arithmetic.ENVIRONMENT
    extra |= {"TMPDIR": str(scratch)} | _route_environment(routes)
    if on_cpu:
        extra |= _cpu_environment(options)
    elif devices:
        extra |= {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
    command = [str(runtime.python), "-P", "-m", *entry, *common, *hardware]
    return ServerCommand(command, child_environment(extra), key)


def plan_offline(
    runtime: Runtime,
    model: ModelSource,
    options: OfflineOptions,
    *,
    scratch: Path,
    devices: Sequence[str],
) -> OfflineCommand:
    """Build the command of an `offline_engine` of the contracts; see `plan_launch`."""
    _check_drafts(runtime, options)
    arguments = [f"--model={model.location}", *_model_arguments(model, options)]
    arguments += ["--enable-prefix-caching", "--disable-log-stats"]
    arguments += ["--worker-extension-cls", MENDED_WORKER]
    if options.disable_cascade_attn:
        arguments += ["--disable-cascade-attn"]
    extra = {"VLLM_NO_USAGE_STATS": "1", "NO_COLOR": "1", "TMPDIR": str(scratch)}
    if runtime.accelerator == Accelerator.CPU:
        _, hardware = _on_cpu(model, options)
        extra |= _cpu_environment(options)
    else:
        _, hardware = _on_gpu(model, options, NO_ROUTES, len(devices))
        extra |= {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
    command = [str(runtime.python), "-P", "-m", MODULE, *arguments, *hardware]
    return OfflineCommand(command, child_environment(extra))


def _common_arguments(
    model: ModelSource, served_name: str, options: VllmOptions, port: int
) -> list[str]:
    arguments = ["--host", HOST, "--port", str(port), f"--served-model-name={served_name}"]
    arguments += ["--disable-uvicorn-access-log"]
    return arguments + _model_arguments(model, options)


def _model_arguments(model: ModelSource, options: VllmOptions) -> list[str]:
    arguments = ["--max-model-len", str(options.max_model_len or "auto")]
    if options.max_num_seqs is not None:
        arguments += ["--max-num-seqs", str(options.max_num_seqs)]
    if model.revision is not None:
        arguments += [f"--revision={model.revision}"]
    if model.trusted:
        arguments += ["--trust-remote-code"]
    if model.tokenizer is not None:
        arguments += [f"--tokenizer={model.tokenizer}"]
    if isinstance(options.speculation, Drafts):
        arguments += ["--speculative-config", json.dumps(_speculation(options.speculation))]
    return arguments


def _check_drafts(runtime: Runtime, options: VllmOptions) -> None:
    drafts = options.speculation
    if not isinstance(drafts, Drafts) or drafts.method != "suffix":
        return
    if next(runtime.python.parents[1].glob(f"lib/python*/site-packages/{SUFFIXES}"), None) is None:
        raise InvalidRequest(
            "suffix drafts need the package arctic-inference in the vllm runtime",
            param="engine.speculation.method",
        )


def _speculation(drafts: Drafts) -> JsonObject:
    found: JsonObject = {"method": drafts.method, "num_speculative_tokens": drafts.tokens}
    if drafts.method == "ngram":
        least, most = drafts.matches
        found |= {"prompt_lookup_min": least, "prompt_lookup_max": most}
    return found


def _route_arguments(routes: Routes) -> list[str]:
    arguments = []
    if routes.tokens:
        arguments += ["--enable-scale-out", "--logprobs-mode", "processed_logprobs"]
        arguments += ["--max-logprobs", str(TOP_K_LIMIT)]
    worker = WEIGHT_WORKER if routes.weights else MENDED_WORKER
    arguments += ["--worker-extension-cls", worker]
    if routes.weights:
        arguments += ["--weight-transfer-config", json.dumps({"backend": WEIGHT_BACKEND})]
    if routes.weights or routes.adapters or routes.sleep or routes.guarded:
        arguments += ["--middleware", GUARD]
    if routes.priorities:
        arguments += ["--scheduling-policy", "priority"]
    return arguments


def _route_environment(routes: Routes) -> dict[str, str]:
    environment = {}
    if routes.weights or routes.sleep:
        environment["VLLM_SERVER_DEV_MODE"] = "1"
    if routes.adapters:
        environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    return environment


def _cpu_environment(options: VllmOptions) -> dict[str, str]:
    # One process fewer.
    environment = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "CUDA_VISIBLE_DEVICES": ""}
    environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS") or str(usable_cores())
    environment |= _KEPT_MEMORY
    if options.enforce_eager is not False:
        # Otherwise the first request for log-probabilities compiles for 20 s.
        environment["TORCHDYNAMO_DISABLE"] = "1"
    return environment


def _on_cpu(model: ModelSource, options: VllmOptions) -> tuple[list[str], list[str]]:
    config = read_model_config(model.path)
    dtype = cpu_dtype(config, options)
    gibibytes = options.cpu_kv_cache_gib
    cached = config.model_copy(update={"dtype": dtype}) if dtype != "auto" else config
    cache = cpu_cache_bytes(cached) if gibibytes is None else int(gibibytes * GIBIBYTE)
    arguments = ["--distributed-executor-backend", "uni", "--dtype", dtype]
    arguments += ["--kv-cache-memory-bytes", str(cache)]
    # vLLM 0.32 crashes when it samples with a seed after a chunked prefill: it rewinds the
    # generator in a way that only CUDA generators support.
    arguments += ["--no-enable-chunked-prefill"]
    if options.enforce_eager is not False:
        arguments += ["--enforce-eager"]
    return [CPU_ENTRY, f"--model={model.location}"], arguments


def cpu_dtype(config: ModelConfig, options: VllmOptions) -> str:
    """The data type of an engine without a GPU: what the options say, else the checkpoint's where
    the processor computes in it, else float32, which is exact and several times faster."""
    if options.dtype != "auto":
        return options.dtype
    return "auto" if config.is_bfloat16 and has_native_bfloat16() else "float32"


def _on_gpu(
    model: ModelSource, options: VllmOptions, routes: Routes, devices: int
) -> tuple[list[str], list[str]]:
    arguments = ["--gpu-memory-utilization", str(options.gpu_memory_utilization)]
    arguments += ["--tensor-parallel-size", str(max(1, devices)), "--dtype", options.dtype]
    if options.enforce_eager:
        arguments += ["--enforce-eager"]
    if routes.sleep:  # without a GPU it has no effect, and the flag would be refused
        arguments += ["--enable-sleep-mode"]
    return ["vllm.entrypoints.cli.main", "serve", model.location], arguments


def _lora(
    adapters: Sequence[LoraAdapter], options: VllmOptions, slots: AdapterSlots | None
) -> list[str]:
    if not adapters and slots is None:
        return []
    ranks = [adapter_rank(a.path) for a in adapters] + ([slots.rank] if slots else [])
    rank = options.max_lora_rank or _rank_for(max(ranks))
    count = len(adapters) + (slots.count if slots else 0)
    arguments = ["--enable-lora", "--max-lora-rank", str(rank), "--max-loras", str(count)]
    modules = [json.dumps({"name": a.name, "path": str(a.path)}) for a in adapters]
    return [*arguments, "--lora-modules", *modules] if modules else arguments


def _rank_for(rank: int) -> int:
    ranks: tuple[int, ...] = get_args(LoraRank)
    fitting = [known for known in ranks if known >= rank]
    if not fitting:
        raise InvalidRequest(
            f"vLLM serves adapters of rank {ranks[-1]} at most, not {rank}", param="model"
        )
    return fitting[0]


def _visible_devices() -> list[str]:
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [device.strip() for device in devices.split(",") if device.strip()]
