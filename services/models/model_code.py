"""Code that comes with a model: transformers imports it where ``auto_map`` names it.

It runs only for models that the operator trusts. Runtimes import this module too.
"""

import json
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
