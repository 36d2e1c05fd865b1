"""The tokenizer and chat template of a job's model: the files that all who encode its text use."""

from pathlib import Path

from pydantic import JsonValue

from services.contracts.errors import InvalidRequest, JobFailed
from services.contracts.sampling import ChatTemplateKwargs
from services.core.artifacts import ModelSource
from services.models.embedding_models import computes_embeddings
from services.models.tokenizer_ids.compare import check_built, check_prepared
from services.models.tokenizer_ids.files import GENERATION_CONFIG, TOKENIZER, read_object
from services.models.tokenizer_ids.prepared import prepare_tokenizer
from services.rollouts.chat import open_chat_tokens
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.chat.hub import TokenizerUnavailable, fetch_chat_files

TOKENIZER_FOLDER = "tokenizer"
"""In a job's folder: the prepared tokenizer of its model."""
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_new_tokens")
"""What vLLM takes from generation_config.json."""


def load_chat_tokens(
    source: ModelSource, variables: ChatTemplateKwargs, *, neutralizes: bool = False
) -> ChatTokens:
    """Load from a folder, or download from the hub if needed; ``variables`` are passed to the
    chat template, and with ``neutralizes`` special tokens in prompts' texts are ordinary text.

    Raises `InvalidRequest` for a model without a chat template or a fast tokenizer and for a
    variable that the template does not read, and ``JobFailed`` when the download fails.
    """
    return open_chat_tokens(
        chat_folder(source), variables, weights=weights_folder(source), neutralizes=neutralizes
    )


def chat_folder(source: ModelSource) -> Path:
    """The folder with tokenizer and chat template, downloaded if needed; raises ``JobFailed`` when
    that fails."""
    return source.tokenizer or weights_folder(source)


def weights_folder(source: ModelSource) -> Path:
    """The folder with the configuration of the weights; see `chat_folder`."""
    if source.path is not None:
        return source.path
    try:
        return fetch_chat_files(str(source.hub_id), source.revision)
    except TokenizerUnavailable as error:
        raise JobFailed(error.message, code=error.code) from error


def prepared_source(source: ModelSource, target: Path, python: Path) -> ModelSource:
    """The model with a prepared copy of its tokenizer in ``target``, which the engine loads with
    the interpreter ``python``.

    A model without tokenizer.json keeps its own files, of which the training runtime must build the
    same, and so does an embedding model, whose vectors are those of its library. Raises
    `InvalidRequest` for files that cannot be read, and for a tokenizer that the engine would build
    differently.
    """
    folder = chat_folder(source)
    if computes_embeddings(source.path):
        return source
    if not (folder / TOKENIZER).is_file():
        check_built(source.location, folder, python)
        return source
    prepared = prepare_tokenizer(folder, target, weights=weights_folder(source))
    check_prepared(source.location, prepared, "vllm", python)
    return source.model_copy(update={"tokenizer": prepared})


def sampling_defaults(weights: Path | None) -> dict[str, JsonValue]:
    """The sampling settings in a model's generation_config.json; empty while it is on a hub."""
    if weights is None:
        return {}
    try:
        settings = read_object(weights / GENERATION_CONFIG)
    except InvalidRequest:
        return {}  # the engine refuses it
    return {name: settings[name] for name in _SAMPLING if settings.get(name) is not None}
