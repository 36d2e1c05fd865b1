"""What a request names, resolved for a child: registered models and uploaded files."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from services.contracts.base import JsonObject
from services.contracts.engine import VllmOptions
from services.contracts.errors import TemperError
from services.contracts.models import RemoteModel
from services.contracts.multi_turn import Tool
from services.core.artifacts import Artifacts
from services.core.process.runtimes import find_runtime
from services.core.registry import locate_model, resolve_model
from services.core.worker.settings import WorkerSettings
from services.datasets.validate import PromptTemplate
from services.evaluator.serving import ENDPOINT_KEY, Adapter, LocalModel, RemoteEndpoint

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
    return LocalModel(
        path=resolved.weights.path,
        hub_id=resolved.weights.hub_id,
        revision=resolved.weights.revision,
        tokenizer=resolved.weights.tokenizer,
        trusted=resolved.weights.trusted,
        adapter=(Adapter(name=resolved.id, path=resolved.adapter) if resolved.adapter else None),
        stop_token_ids=list(resolved.stop_token_ids),
        runtime_python=find_runtime(settings.runtimes_folder, RUNTIME).python,
        merging_python=(
            find_runtime(settings.runtimes_folder, MERGING_RUNTIME).python
            if resolved.needs_merge
            else None
        ),
        options=options,
    )


def endpoint_key(model: str | RemoteModel, settings: WorkerSettings) -> dict[str, str]:
    """The operator's key for a remote model, which only the child's environment carries."""
    if not isinstance(model, RemoteModel):
        return {}
    key = settings.endpoint_keys.get(model.origin)
    return {ENDPOINT_KEY: key} if key is not None else {}
