"""The managed vLLM server with a real model, a real adapter and real failures."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from services.core.artifacts import ModelSource
from services.core.process.runtimes import MARKER, Accelerator, Runtime
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.retries import ServiceFailed
from services.inference.vllm.log import StartupPhase
from services.inference.vllm.server import StartupProgress, VllmFailed, VllmServer
from tests.support.models.tiny_adapter import write_adapter
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import installed_runtime
from tests.support.waiting import wait_for

pytestmark = pytest.mark.runtime


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return installed_runtime("vllm")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"), "vllm")


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Every process the server starts inherits this name."""
    monkeypatch.setenv(MARKER, str(tmp_path))
    return str(tmp_path)


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder with a short path, which must be empty after the test."""
    with tempfile.TemporaryDirectory(prefix="tv-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)
        assert list(Path(folder).iterdir()) == []


def processes(tree: str, parent: int | None = None) -> list[psutil.Process]:
    """The processes of a server; with a parent, only its children."""
    found = []
    for process in psutil.process_iter():
        try:
            name = process.environ().get(MARKER, "")
            if name.startswith(f"{tree}/") and parent in (None, process.ppid()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def assert_nothing_left(tree: str) -> None:
    wait_for(lambda: not processes(tree), "no process of the server is left")


LONG_PROMPT = "x y " * 620
"""More tokens than vLLM prefills at once by default."""


async def ask(
    server: VllmServer, model: str, content: str = "12+34", temperature: float = 0.0
) -> ChatCompletion:
    request = ChatRequest(
        model=model,
        messages=[{"role": "user", "content": content}],
        max_tokens=16,
        temperature=temperature,
        seed=0,
    )
    async with InferenceClient(server.base_url, server.api_key, 300) as client:
        return await client.chat(request)


def test_a_model_and_its_adapter_are_served_and_cleaned_up(
    runtime: Runtime, model: Path, tree: str, tmp_path: Path
) -> None:
    adapter = write_adapter(tmp_path / "adapter")
    seen: list[StartupProgress] = []

    async def run() -> tuple[ChatCompletion, ...]:
        async with VllmServer(
            runtime.python,
            ModelSource(path=model),
            "base",
            [("tuned", adapter)],
            tmp_path,
            on_progress=seen.append,
        ) as server:
            assert processes(tree)
            async with InferenceClient(server.base_url, "another key", 300) as stranger:
                with pytest.raises(ServiceFailed) as refused:
                    await stranger.chat(ChatRequest(model="base", messages=[{}]))
                assert refused.value.status == 401
            sampled = [await ask(server, "base", LONG_PROMPT, 0.7) for _ in range(2)]
            return await ask(server, "base"), await ask(server, "tuned"), *sampled

    base, tuned, first, second = asyncio.run(run())

    assert base.usage is not None
    assert base.usage.completion > 0
    assert base.content != tuned.content
    assert first.content == second.content  # the same seed gives the same sample
    phases = [progress.phase for progress in seen]
    assert phases == [phase for phase in StartupPhase if phase in phases]
    assert phases[0] is StartupPhase.IMPORTING
    assert phases[-1] is StartupPhase.READY
    assert_nothing_left(tree)


def test_a_broken_model_raises_a_typed_error_with_its_cause(
    runtime: Runtime, model: Path, tree: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in model.iterdir():
        content = file.read_bytes()
        cut = len(content) // 2 if file.suffix == ".safetensors" else len(content)
        (broken / file.name).write_bytes(content[:cut])

    async def run() -> None:
        async with VllmServer(runtime.python, ModelSource(path=broken), "m", [], tmp_path):
            pass

    with pytest.raises(VllmFailed) as failed:
        asyncio.run(run())

    assert "SafetensorError" in failed.value.message
    assert "\n" not in failed.value.message
    assert failed.value.last_lines
    assert_nothing_left(tree)


@pytest.mark.parametrize("victim", ["server", "watchdog"])
def test_a_killed_server_is_detected_and_cleaned_up(
    runtime: Runtime, model: Path, tree: str, tmp_path: Path, victim: str
) -> None:
    """The engine changes its title, and with it the environment that names its tree."""
    started: list[psutil.Process] = []

    async def run() -> None:
        async with VllmServer(runtime.python, ModelSource(path=model), "m", [], tmp_path) as server:
            (watchdog,) = processes(tree, os.getpid())
            started.extend(watchdog.children(recursive=True))
            (api_server,) = watchdog.children()
            (api_server if victim == "server" else watchdog).send_signal(signal.SIGKILL)
            await asyncio.wait_for(server.watch(), 120)

    with pytest.raises(VllmFailed, match="was killed"):
        asyncio.run(run())

    assert len(started) > 1
    assert_nothing_left(tree)
    assert psutil.wait_procs(started, timeout=60)[1] == []


def test_a_cancelled_start_cleans_up(
    runtime: Runtime, model: Path, tree: str, tmp_path: Path
) -> None:
    async def run() -> None:
        loading = asyncio.Event()

        def progress(seen: StartupProgress) -> None:
            if seen.phase is StartupPhase.LOADING_WEIGHTS:
                loading.set()

        async def serve() -> None:
            async with VllmServer(
                runtime.python, ModelSource(path=model), "m", [], tmp_path, on_progress=progress
            ):
                await asyncio.Event().wait()

        task = asyncio.create_task(serve())
        await asyncio.wait_for(loading.wait(), 480)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())

    assert_nothing_left(tree)


def test_the_cpu_entry_patches_what_vllm_0_32_has(runtime: Runtime) -> None:
    if runtime.accelerator != Accelerator.CPU:
        pytest.skip("the entry is used without a GPU only")
    (package,) = runtime.python.parents[1].glob("lib/python3*/site-packages/vllm")

    assert "version = '0.32." in (package / "_version.py").read_text()
    assert "= get_mp_context()" in (package / "v1/engine/utils.py").read_text()
    registry = (package / "model_executor/models/registry.py").read_text()
    assert "= _run_in_subprocess(" in registry
    reloading = (package / "model_executor/model_loader/reload/inplace.py").read_text()
    assert "        finalize_layerwise_reload(model, model_config)\n" in reloading
