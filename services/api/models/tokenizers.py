"""Whether the runtimes of this host give a model's text the same ids."""

from contextlib import suppress
from pathlib import Path

from services.api.models.folders import inspect_folder
from services.contracts.errors import InvalidRequest
from services.contracts.models import RegisterModel
from services.core.process.runtimes import RuntimeMissing, find_runtime
from services.core.settings import Settings
from services.core.tokenizer_ids.compare import CODE, check_equal_ids
from services.core.tokenizer_ids.files import TOKENIZER

RUNTIMES = ("training", "vllm")
_FILES = (TOKENIZER, "*.model", "*.tiktoken", "vocab.*")


def check_registered_tokenizer(request: RegisterModel, settings: Settings) -> None:
    """Raise `InvalidRequest` for a folder whose text has other ids in one runtime than in another.

    A host without runtimes, a hub model and a broken tokenizer are left to the jobs that load them,
    and a folder that cannot be registered to the registration.
    """
    root = settings.models_folder
    if request.folder is None:
        return
    installed = []
    for name in RUNTIMES:
        with suppress(RuntimeMissing):
            installed.append(find_runtime(settings.runtimes_folder, name))
    try:
        folder = root / inspect_folder(root, request.folder).name
        if any(_has(folder, pattern) for pattern in _FILES):
            check_equal_ids(request.id, folder, installed, settings.home)
    except InvalidRequest as error:
        if error.code == CODE:
            error.param = "folder"
            raise


def _has(folder: Path, pattern: str) -> bool:
    return any(path.is_file() for path in folder.glob(pattern))
