"""Whether a model may be loaded: its files are readable, and it brings no code that is untrusted.

Both are found out before a device needs the model. transformers imports the code of a model where
``auto_map`` names it; it runs only for models that the operator trusts. Runtimes import this
module too.
"""

import json
import os
from pathlib import Path
from typing import Any

from services.contracts.errors import InvalidRequest

UNTRUSTED_CODE = "model_code_not_trusted"
SETTING = "TEMPER_TRUSTED_MODELS"
HUB_PREFIX = "hub:"
"""Before the name of a repository in the setting; folders are named as they are registered."""

_CONFIGURATIONS = (
    *("config.json", "tokenizer_config.json", "processor_config.json"),
    *("preprocessor_config.json", "video_preprocessor_config.json"),
)
_GENERATION = "custom_generate/generate.py"
_ELSEWHERE = "--"
"""Between a repository and a module, where the code is not beside the weights."""


def check_code(folder: Path, *, trusted: bool, name: str, entry: str, param: str = "model") -> None:
    """Raise `InvalidRequest` for a folder with code that may not run.

    ``entry`` is what the operator's setting would have to name. Code of another repository runs
    for nobody: what is trusted is the model, whose code is stored beside it.
    """
    place = _place_of_code(folder)
    if place is None:
        return
    if not trusted:
        raise InvalidRequest(
            f"model {name!r} comes with code of its own ({place}), which runs only for models "
            f"that the operator trusts: {entry!r} is not in {SETTING}",
            param=param,
            code=UNTRUSTED_CODE,
        )
    if (elsewhere := _other_repository(folder)) is not None:
        raise InvalidRequest(
            f"the code of model {name!r} is in {elsewhere!r}, not beside its weights: copy it",
            param=param,
            code=UNTRUSTED_CODE,
        )


def code_files(folder: Path) -> list[Path]:
    """The modules beside a model whose configuration names code; else none."""
    return sorted(folder.glob("*.py")) if _place_of_code(folder) is not None else []


def _place_of_code(folder: Path) -> str | None:
    """The file that names code, with its key; None for a model without code."""
    for name in _CONFIGURATIONS:
        if _auto_map(folder / name):
            return f"auto_map in {name}"
    return _GENERATION if (folder / _GENERATION).is_file() else None


def _other_repository(folder: Path) -> str | None:
    for name in _CONFIGURATIONS:
        for reference in _references(_auto_map(folder / name)):
            repository, separator, _ = reference.partition(_ELSEWHERE)
            if separator:
                return repository
    return None


def _references(value: object) -> list[str]:
    """The classes that an auto_map names; a tokenizer may have a slow and a fast one, or null."""
    if isinstance(value, str):
        return [value]
    parts = list(value.values()) if isinstance(value, dict) else value
    return [name for part in parts for name in _references(part)] if isinstance(parts, list) else []


def _auto_map(path: Path) -> Any:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None  # what loads it will say what is wrong
    return content.get("auto_map") if isinstance(content, dict) else None


ENTER = os.R_OK | os.X_OK


def check_readable(folder: Path, name: str, param: str) -> None:
    """Raise `InvalidRequest` if the folder of a model, or anything in it, cannot be read.

    Services may run as another user than the one who put the model there; in containers they
    always do. ``name`` is what the request calls the model. A folder that is missing passes.
    """
    path = _unreadable(folder)
    if path is None:
        return
    inside = path.is_relative_to(folder) and path != folder
    what = f"{path.relative_to(folder)} in its folder" if inside else "its folder"
    raise InvalidRequest(
        f"{name!r}: {what} cannot be read by user {os.geteuid()}, as which this service runs: "
        f"{_reason(path)}; `chmod -R a+rX` on the folder lets every user read it",
        param=param,
    )


def _unreadable(folder: Path) -> Path | None:
    """The first folder or file that cannot be read, those above the folder included."""
    for above in reversed(folder.parents):
        if not _may(above, os.X_OK):
            return above if _may(above, os.F_OK) else None
    if not _may(folder, ENTER):
        return folder if _may(folder, os.F_OK) else None
    for place, folders, files in os.walk(folder):
        for names, mode in ((files, os.R_OK), (folders, ENTER)):
            for path in (Path(place, name) for name in sorted(names)):
                if not _may(path, mode):
                    return path
    return None


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=True)


def _reason(path: Path) -> str:
    try:
        status = path.stat()
    except OSError as error:  # a link to a file that is not there
        return str(error.strerror)
    return f"it belongs to user {status.st_uid}, mode {status.st_mode & 0o7777:04o}"
