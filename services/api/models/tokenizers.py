"""Whether the runtimes of this host give a model's text the same ids."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from services.api.models.folders import inspect_folder
from services.contracts.errors import InvalidRequest
from services.contracts.models.registered import RegisterModel
from services.core.process.runtimes import Runtime, RuntimeMissing, find_runtime
from services.core.settings import Settings
from services.models.embedding_models import computes_embeddings
from services.models.tokenizer_ids.compare import (
    BUILT_FROM,
    CODE,
    EMBEDDING,
    GENERATING,
    check_equal_ids,
)
from services.models.tokenizer_ids.files import TOKENIZER

_FILES = (TOKENIZER, *BUILT_FROM)


def check_registered_tokenizer(request: RegisterModel, settings: Settings) -> None:
    """Raise `InvalidRequest` for a folder whose text has other ids in one runtime than in another.

    The runtimes are those that generate text, or those that compute vectors for a model of those.
    A host without runtimes, a hub model and a broken tokenizer are left to the jobs that load them,
    and a folder that cannot be registered to the registration.
    """
    root = settings.models_folder
    if request.folder is None:
        return
    try:
        folder = root / inspect_folder(root, request.folder).name
        if any(_has(folder, pattern) for pattern in _FILES):
            embeds = computes_embeddings(folder) is True
            installed = _installed(EMBEDDING if embeds else GENERATING, settings)
            check_equal_ids(request.id, folder, installed, settings.home, embeds=embeds)
    except InvalidRequest as error:
        if error.code == CODE:
            error.param = "folder"
            raise


def _installed(names: Sequence[str], settings: Settings) -> list[Runtime]:
    installed = []
    for name in names:
        with suppress(RuntimeMissing):
            installed.append(find_runtime(settings.runtimes_folder, name))
    return installed


def _has(folder: Path, pattern: str) -> bool:
    return any(path.is_file() for path in folder.glob(pattern))
