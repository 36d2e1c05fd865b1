"""A registered model, served by vLLM for the length of a job."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from services.contracts.engine import VllmOptions
from services.contracts.errors import JobFailed
from services.contracts.models.registered import HubName, RemoteModel
from services.contracts.validation import AtField
from services.core.artifacts import ModelSource
from services.core.process.reporter import Reporter
from services.evaluator.tokenizers import (
    TOKENIZER_FOLDER,
    prepared_source,
    sampling_defaults,
)
from services.inference.merging.merged import merged_model
from services.inference.merging.spec import AdapterMerge
from services.inference.vllm.launch import NO_ROUTES, Routes, cpu_dtype
from services.inference.vllm.model_config import read_model_config

if TYPE_CHECKING:
    from services.inference.vllm.server import StartupProgress, VllmServer

ENDPOINT_KEY = "TEMPER_ENDPOINT_KEY"
"""Variable of the child's environment with the API key of a remote endpoint, if it needs one. The
key is never part of the specification, which stays on disk."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class Adapter(_Strict):
    """A LoRA adapter: the name it is served under, and its folder."""

    name: str = Field(min_length=1)
    path: Path


class LocalModel(_Strict):
    """A model that a vLLM server of this job serves: a folder or a hub repository."""

    type: Literal["local"] = "local"
    path: Path | None = None
    hub_id: HubName | None = None
    revision: str | None = None
    trusted: bool = Field(default=False, description="Whether the model's own code may run.")
    tokenizer: Path | None = Field(
        default=None, description="The folder of an adapter that has its own tokenizer."
    )
    adapter: Adapter | None = None
    stop_token_ids: list[int] = Field(
        default_factory=list, description="Tokens that end a response beside those of the files."
    )
    runtime_python: Path = Field(description="The interpreter of the vllm runtime.")
    on_cpu: bool = Field(default=False, description="Whether it computes without a GPU.")
    merging_python: Path | None = Field(
        default=None,
        description="That of the training runtime, for an adapter that is served merged.",
    )
    options: VllmOptions = Field(default_factory=VllmOptions)

    @model_validator(mode="after")
    def _one_source(self) -> "LocalModel":
        if (self.path is None) == (self.hub_id is None):
            raise AtField("path", "give exactly one of path and hub_id")
        return self

    @property
    def source(self) -> ModelSource:
        """The full weights, and the folder with the tokenizer where that is another."""
        names = ("path", "hub_id", "revision", "tokenizer", "trusted")
        return ModelSource(**{name: getattr(self, name) for name in names})


class RemoteEndpoint(RemoteModel):
    """A model behind an OpenAI-compatible URL."""

    type: Literal["remote"] = "remote"


class Served(NamedTuple):
    """A running server, and the name under which it serves what is asked."""

    server: "VllmServer"
    name: str


@asynccontextmanager
async def served(
    model: LocalModel,
    job_dir: Path,
    reporter: Reporter,
    routes: Routes = NO_ROUTES,
    name: str | None = None,
) -> AsyncIterator[Served]:
    """A server of the model, ready inside the block; its start is reported.

    ``name`` is what the server calls the loaded weights, or the adapter over them; None: a name of
    its own choice. Text is encoded as tokenizer.json says, see `prepared_source`.

    Entering raises ``JobFailed`` with the code ``engine_start_failed`` when the model cannot be
    served.
    """
    # The worker, which imports the types above, serves nothing itself.
    from services.inference.vllm.server import VllmFailed, VllmServer  # noqa: PLC0415 - loaded with the first engine

    await _download(model.source, reporter)
    source = await asyncio.to_thread(
        prepared_source, model.source, job_dir / TOKENIZER_FOLDER, model.runtime_python
    )
    source, adapter = await _loadable(source, model, job_dir, reporter)
    reporter.phase("loading_model")
    base_name = f"base-of-{adapter.name}" if adapter else name or "model"
    _tell_defaults(source, reporter)
    _tell_precision(source, model, reporter)

    def tell(progress: "StartupProgress") -> None:
        elapsed = round(progress.elapsed_seconds, 1)
        reporter.message(f"vLLM: {progress.phase} ({elapsed} s)", elapsed_seconds=elapsed)

    server = VllmServer(
        model.runtime_python,
        source,
        base_name,
        [(adapter.name, adapter.path)] if adapter else [],
        job_dir,
        model.options,
        routes=routes,
        on_progress=tell,
    )
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except VllmFailed as error:
            reporter.message("The model could not be served", "error", log_tail=error.last_lines)
            failure = JobFailed(error.message, code="engine_start_failed")
            failure.retryable = error.retryable
            raise failure from error
        yield Served(server, adapter.name if adapter else base_name)


async def _download(source: ModelSource, reporter: Reporter) -> None:
    """Download a hub model, with its bytes counted.

    What cannot be downloaded so is left to the engine, which reads other formats, and says what it
    misses.
    """
    if source.hub_id is None:
        return
    # The hub's client takes a second.
    from services.models.hub_download import Meter  # noqa: PLC0415
    from services.models.hub_model import PHASE, Told, download_model  # noqa: PLC0415

    reporter.phase(PHASE)
    with Meter(Told(source.hub_id, reporter)) as meter:
        try:
            await asyncio.to_thread(download_model, source, source.revision, meter)
        except asyncio.CancelledError:
            meter.stop()
            raise
        except Exception as error:  # the hub's library lets its HTTP client's exceptions through
            reporter.message(f"left to the engine: {error}".splitlines()[0], "warn")


async def _loadable(
    source: ModelSource, model: LocalModel, job_dir: Path, reporter: Reporter
) -> tuple[ModelSource, Adapter | None]:
    """The weights and the adapter that vLLM loads; no adapter where it is merged."""
    if model.adapter is None or model.merging_python is None:
        return source, model.adapter
    reporter.phase("merging")
    merge = AdapterMerge(
        base=source, adapter=model.adapter.path, stop_token_ids=model.stop_token_ids
    )
    folder = await merged_model(model.merging_python, merge, job_dir)
    return source.model_copy(update={"path": folder, "hub_id": None, "revision": None}), None


def _tell_precision(source: ModelSource, model: LocalModel, reporter: Reporter) -> None:
    """Report that an engine without a GPU computes in float32 what is stored otherwise."""
    if not model.on_cpu:
        return
    config = read_model_config(source.path)
    if cpu_dtype(config, model.options) == "float32" and not config.is_float32:
        reporter.message("computing in float32, which this processor does faster")


def _tell_defaults(source: ModelSource, reporter: Reporter) -> None:
    """Report the sampling settings that requests without their own get from the model's files."""
    if defaults := sampling_defaults(source.path):
        listed = ", ".join(f"{name} {value}" for name, value in defaults.items())
        reporter.message(
            f"requests that do not set them are sampled with the model's generation_config.json: "
            f"{listed}"
        )
