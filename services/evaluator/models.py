"""What a request names, resolved for a child: registered models and uploaded files."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.orm import Session

from services.contracts.base import JsonObject
from services.contracts.engine import VllmOptions
from services.contracts.errors import TemperError
from services.contracts.models.registered import RemoteModel
from services.contracts.rollouts.multi_turn import Tool
from services.core.artifacts import Artifacts
from services.core.process.runtimes import Accelerator, Runtime, RuntimeMissing, find_runtime
from services.datasets.validate import PromptTemplate
from services.evaluator.serving import ENDPOINT_KEY, Adapter, LocalModel, RemoteEndpoint
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import ResolvedModel, locate_model, resolve_model

RUNTIME = "vllm"
MERGING_RUNTIME = "training"


def prompt_template(
    session: Session,
    model: str | RemoteModel,
    variables: JsonObject,
    settings: WorkerSettings,
    *,
    tools: Sequence[Tool] = (),
    neutralizes: bool = False,
) -> PromptTemplate | None:
    """The chat template that renders a model's prompts, with the tools on offer; None for
    a model that is not here, or cannot be used, which the work says."""
    if isinstance(model, RemoteModel):
        return None
    artifacts = Artifacts(settings.home)
    try:
        resolved = locate_model(
            session, model, settings.models_folder, artifacts, settings.trusted_models
        )
    except TemperError:
        return None
    folder = resolved.tokenizer_folder
    if folder is None:
        return None
    return PromptTemplate(
        folder=folder, variables=variables, tools=list(tools), neutralizes=neutralizes
    )


def model_of(
    session: Session, model: str | RemoteModel, options: VllmOptions, settings: WorkerSettings
) -> LocalModel | RemoteEndpoint:
    """Whom a job asks. Raises `InvalidRequest` or `RuntimeMissing` for what cannot be served."""
    if isinstance(model, RemoteModel):
        return RemoteEndpoint(base_url=model.base_url, model=model.model)
    artifacts = Artifacts(settings.home)
    resolved = resolve_model(
        session, model, settings.models_folder, artifacts, settings.trusted_models
    )
    runtime = find_runtime(settings.runtimes_folder, RUNTIME)
    return LocalModel(
        path=resolved.weights.path,
        hub_id=resolved.weights.hub_id,
        revision=resolved.weights.revision,
        tokenizer=resolved.weights.tokenizer,
        trusted=resolved.weights.trusted,
        adapter=(Adapter(name=resolved.id, path=resolved.adapter) if resolved.adapter else None),
        stop_token_ids=list(resolved.stop_token_ids),
        runtime_python=runtime.python,
        on_cpu=runtime.accelerator is Accelerator.CPU,
        merging_python=_merging_python(resolved, runtime, settings),
        options=options,
    )


def _merging_python(
    resolved: ResolvedModel, runtime: Runtime, settings: WorkerSettings
) -> Path | None:
    """The interpreter that merges the model's adapter, or None where the engine applies it.

    Without a GPU vLLM gathers the adapter's matrices for every token: an answer takes minutes.
    """
    if resolved.adapter is None:
        return None
    if not resolved.needs_merge and runtime.accelerator is not Accelerator.CPU:
        return None
    try:
        return find_runtime(settings.runtimes_folder, MERGING_RUNTIME).python
    except RuntimeMissing:
        if resolved.needs_merge:
            raise
        return None  # slow, but right


def endpoint_key(model: str | RemoteModel, settings: WorkerSettings) -> dict[str, str]:
    """The operator's key for a remote model, which only the child's environment carries."""
    if not isinstance(model, RemoteModel):
        return {}
    key = settings.endpoint_keys.get(model.origin)
    return {ENDPOINT_KEY: key} if key is not None else {}
