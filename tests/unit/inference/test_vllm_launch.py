"""Starting a vLLM server on each kind of hardware, and what it must not see."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from services.contracts.engine import VllmOptions
from services.contracts.errors import InvalidRequest
from services.core.artifacts import LoraAdapter, ModelSource
from services.core.process.runtimes import Accelerator, Runtime
from services.inference.vllm.launch import (
    EXACT_ENTRY,
    NO_ROUTES,
    AdapterSlots,
    Routes,
    ServerCommand,
    plan_launch,
)

TINY = {
    "dtype": "float32",
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
}
LLAMA_70B = {
    "torch_dtype": "bfloat16",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
}
MEBIBYTE = 2**20


def model(folder: Path, config: dict[str, Any]) -> ModelSource:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return ModelSource(path=folder)


def adapter(folder: Path, config: object) -> LoraAdapter:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return LoraAdapter("tuned", folder)


def plan(
    source: ModelSource,
    accelerator: Accelerator = Accelerator.CPU,
    adapters: tuple[LoraAdapter, ...] = (),
    routes: Routes = NO_ROUTES,
    devices: tuple[str, ...] | None = None,
    exact: bool = False,
    **options: Any,
) -> ServerCommand:
    runtime = Runtime("vllm", Path("/runtimes/vllm/bin/python"), "1", accelerator)
    return plan_launch(
        runtime,
        source,
        "m",
        adapters,
        VllmOptions(**options),
        port=4242,
        scratch=Path("/scratch"),
        routes=routes,
        devices=devices,
        exact=exact,
    )


def value(launch: ServerCommand, option: str) -> str:
    return launch.command[launch.command.index(option) + 1]


def test_the_server_listens_on_loopback_with_a_hidden_random_key(tmp_path: Path) -> None:
    first, second = (plan(model(tmp_path, TINY)) for _ in range(2))

    assert value(first, "--host") == "127.0.0.1"
    assert first.environment["VLLM_API_KEY"] == first.api_key != second.api_key
    assert first.api_key not in " ".join(first.command)
    assert first.api_key not in repr(first)


def test_usage_statistics_are_disabled(tmp_path: Path) -> None:
    assert plan(model(tmp_path, TINY)).environment["VLLM_NO_USAGE_STATS"] == "1"


def native(monkeypatch: pytest.MonkeyPatch, *, bfloat16: bool) -> None:
    """Make the processor compute in bfloat16 or not."""
    monkeypatch.setattr("services.inference.vllm.launch.has_native_bfloat16", lambda: bfloat16)


def test_without_a_gpu_weights_are_computed_in_what_the_processor_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native(monkeypatch, bfloat16=True)
    assert value(plan(model(tmp_path, TINY)), "--dtype") == "float32"
    assert value(plan(model(tmp_path, LLAMA_70B)), "--dtype") == "auto"
    assert value(plan(model(tmp_path, TINY), dtype="bfloat16"), "--dtype") == "bfloat16"

    native(monkeypatch, bfloat16=False)
    assert value(plan(model(tmp_path, LLAMA_70B)), "--dtype") == "float32"
    assert value(plan(model(tmp_path, LLAMA_70B), dtype="bfloat16"), "--dtype") == "bfloat16"


def test_an_exact_server_computes_the_learners_code_in_float32(tmp_path: Path) -> None:
    launch = plan(model(tmp_path, LLAMA_70B), exact=True, enforce_eager=False)

    assert EXACT_ENTRY in launch.command
    assert (value(launch, "--dtype"), value(launch, "--model-impl")) == ("float32", "transformers")
    assert launch.environment["TORCHDYNAMO_DISABLE"] == "1"
    assert launch.environment["MKL_CBWR"] == "AUTO,STRICT"
    assert "MKL_CBWR" not in plan(model(tmp_path, LLAMA_70B)).environment
    with pytest.raises(InvalidRequest, match="without GPUs"):
        plan(model(tmp_path, LLAMA_70B), Accelerator.CUDA, exact=True)


def test_the_cache_of_weights_computed_in_float32_holds_as_many_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {**TINY, "dtype": "bfloat16", "num_hidden_layers": 24}

    native(monkeypatch, bfloat16=True)
    assert value(plan(model(tmp_path, half)), "--kv-cache-memory-bytes") == str(384 * MEBIBYTE)
    native(monkeypatch, bfloat16=False)
    assert value(plan(model(tmp_path, half)), "--kv-cache-memory-bytes") == str(768 * MEBIBYTE)


def test_without_a_gpu_all_cores_compute_and_waiting_threads_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setattr("services.inference.vllm.launch.usable_cores", lambda: 6)

    environment = plan(model(tmp_path, TINY)).environment

    assert (environment["OMP_NUM_THREADS"], environment["OMP_WAIT_POLICY"]) == ("6", "PASSIVE")
    assert int(environment["MALLOC_TRIM_THRESHOLD_"]) >= 2**30  # freed pages are used again
    assert "OMP_NUM_THREADS" not in plan(model(tmp_path, TINY), Accelerator.CUDA).environment


@pytest.mark.parametrize(
    ("config", "mebibytes"),
    [(TINY, 64), (LLAMA_70B, 2048), ({}, 1024), ({**TINY, "num_hidden_layers": 24}, 768)],
)
def test_without_a_gpu_the_kv_cache_is_sized_to_the_model(
    tmp_path: Path, config: dict[str, Any], mebibytes: int
) -> None:
    launch = plan(model(tmp_path, config))

    assert value(launch, "--kv-cache-memory-bytes") == str(mebibytes * MEBIBYTE)


def test_without_a_gpu_eager_mode_is_the_default(tmp_path: Path) -> None:
    source = model(tmp_path, TINY)

    assert "--enforce-eager" in plan(source).command
    assert "--enforce-eager" not in plan(source, enforce_eager=False).command
    assert "--enforce-eager" not in plan(source, Accelerator.CUDA).command


@pytest.mark.parametrize(("visible", "size"), [("GPU-a,GPU-b", "2"), ("0", "1"), (None, "1")])
def test_all_visible_gpus_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, size: str
) -> None:
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    launch = plan(model(tmp_path, TINY), Accelerator.CUDA, gpu_memory_utilization=0.5)

    assert value(launch, "--tensor-parallel-size") == size
    assert value(launch, "--gpu-memory-utilization") == "0.5"


def test_a_server_uses_only_its_assigned_gpus(tmp_path: Path) -> None:
    launch = plan(model(tmp_path, TINY), Accelerator.CUDA, devices=("GPU-b", "GPU-c"))

    assert value(launch, "--tensor-parallel-size") == "2"
    assert launch.environment["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-c"


def test_development_routes_are_opt_in_and_guarded(tmp_path: Path) -> None:
    source = model(tmp_path, TINY)
    plain, sampling = plan(source), plan(source, routes=Routes(tokens=True))
    training = plan(source, routes=Routes(tokens=True, weights=True))

    for launch in (plain, sampling):
        assert "VLLM_SERVER_DEV_MODE" not in launch.environment
        assert "--middleware" not in launch.command
    assert training.environment["VLLM_SERVER_DEV_MODE"] == "1"
    assert value(training, "--middleware") == "services.inference.vllm.guard.Guard"
    assert "--enable-scale-out" not in plain.command
    assert value(sampling, "--logprobs-mode") == "processed_logprobs"


def test_slots_are_reserved_for_adapters_loaded_later(tmp_path: Path) -> None:
    slots = AdapterSlots(rank=12, count=3)

    launch = plan(model(tmp_path, TINY), routes=Routes(adapters=slots))

    assert (value(launch, "--max-lora-rank"), value(launch, "--max-loras")) == ("16", "3")
    assert "--lora-modules" not in launch.command
    assert launch.environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "1"
    assert "--middleware" in launch.command


def test_chat_reads_tool_calls_in_the_format_of_the_chat_template(tmp_path: Path) -> None:
    source, routes = model(tmp_path, TINY), Routes(tools=True)
    without = plan(source, routes=routes).command
    (tmp_path / "chat_template.jinja").write_text("<tool_call>")

    assert "--enable-auto-tool-choice" not in without
    assert "--enable-auto-tool-choice" not in plan(source).command
    asked = plan(source, routes=routes).command
    assert {"--enable-auto-tool-choice", "--tool-call-parser=hermes"} <= set(asked)


def test_sleep_mode_requires_a_gpu(tmp_path: Path) -> None:
    source, routes = model(tmp_path, TINY), Routes(sleep=True)

    assert "--enable-sleep-mode" in plan(source, Accelerator.CUDA, routes=routes).command
    assert "--enable-sleep-mode" not in plan(source, routes=routes).command


@pytest.mark.parametrize(
    ("config", "rank"),
    [({"r": 4}, "8"), ({"r": 16}, "16"), ({"r": 8, "rank_pattern": {"q_proj": 100}}, "128")],
)
def test_max_lora_rank_is_the_smallest_that_fits_the_adapter(
    tmp_path: Path, config: object, rank: str
) -> None:
    tuned = adapter(tmp_path / "adapter", config)

    launch = plan(model(tmp_path, TINY), adapters=(tuned,))

    assert value(launch, "--max-lora-rank") == rank
    served = json.loads(value(launch, "--lora-modules"))
    assert served == {"name": "tuned", "path": str(tuned.path)}


@pytest.mark.parametrize("config", [{"r": 1000}, {"rank": 8}, []])
def test_an_unservable_adapter_is_refused(tmp_path: Path, config: object) -> None:
    tuned = adapter(tmp_path / "adapter", config)

    with pytest.raises(InvalidRequest):
        plan(model(tmp_path, TINY), adapters=(tuned,))


def test_a_missing_model_folder_is_refused_before_launch(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"model folder .* does not exist"):
        plan(ModelSource(path=tmp_path / "missing"))


def test_the_tokenizer_may_come_from_another_folder(tmp_path: Path) -> None:
    source = ModelSource(path=model(tmp_path, TINY).path, tokenizer=tmp_path / "base")

    assert f"--tokenizer={tmp_path / 'base'}" in plan(source).command


def test_a_hub_model_is_served_at_its_revision() -> None:
    launch = plan(ModelSource(hub_id="org/model", revision="abc123"))

    assert {"--model=org/model", "--revision=abc123"} <= set(launch.command)


@pytest.mark.parametrize("trusted", [False, True])
def test_code_of_a_model_runs_only_where_it_is_trusted(trusted: bool) -> None:
    launch = plan(ModelSource(hub_id="org/model", trusted=trusted))

    assert ("--trust-remote-code" in launch.command) is trusted


@pytest.mark.parametrize(
    "options",
    [{"trust_remote_code": True}, {"max_model_len": "100"}, {"gpu_memory_utilization": 1.5}],
)
def test_unknown_and_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        VllmOptions.model_validate(options)
