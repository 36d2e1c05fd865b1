"""Checks of a folder that is to be registered as a model."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from services.contracts.errors import InvalidRequest
from services.contracts.models.registered import ModelKind
from services.models.loadable import check_readable

CONFIG = "config.json"
GGUF_MAGIC = b"GGUF"
ADAPTER_CONFIG = "adapter_config.json"
MAX_CONFIG_BYTES = 4 << 20


@dataclass(frozen=True)
class ModelFolder:
    """A folder that holds a model, or a GGUF file; ``name`` is relative to the model root."""

    name: str
    kind: ModelKind


def inspect_folder(root: Path, name: str) -> ModelFolder:
    """Check that ``name`` is a folder below ``root`` with a model in safetensors, or a GGUF file
    or the folder of one.

    Raises `InvalidRequest`. Symbolic links out of the root are rejected: only what the operator
    put there can be registered.
    """
    try:
        return _inspect(root, name)
    except (OSError, RuntimeError) as error:  # name too long, no permission, cycle of links
        raise InvalidRequest(f"folder {name!r} cannot be read: {error}", param="folder") from error


def _inspect(root: Path, name: str) -> ModelFolder:
    folder = _inside(root, name)
    check_readable(folder.parent if _is_file(folder) else folder, name, param="folder")
    if (gguf := _gguf_file(folder, name)) is not None:
        return ModelFolder(gguf.relative_to(root.resolve()).as_posix(), ModelKind.GGUF)
    if not folder.is_dir():
        raise InvalidRequest(f"no folder {name!r} under the model root", param="folder")
    kind = ModelKind.ADAPTER if (folder / ADAPTER_CONFIG).is_file() else ModelKind.FULL
    config = folder / (ADAPTER_CONFIG if kind is ModelKind.ADAPTER else CONFIG)
    _check_config(config, name)
    if not any(folder.glob("*.safetensors")):
        raise InvalidRequest(
            f"folder {name!r} has no *.safetensors; pickled weights are not loaded", param="folder"
        )
    return ModelFolder(folder.relative_to(root.resolve()).as_posix(), kind)


def _is_file(path: Path) -> bool:
    """Whether it is a file, as far as this service may know."""
    with suppress(PermissionError):
        return path.is_file()
    return False


def _gguf_file(path: Path, name: str) -> Path | None:
    """The GGUF file that a path names, or that is alone in the folder; None where there is none."""
    if path.is_dir() and not any(path.glob("*.safetensors")):
        found = sorted(path.glob("*.gguf"))
    else:
        found = [path] if path.is_file() and path.suffix == ".gguf" else []
    if len(found) > 1:
        names = ", ".join(each.name for each in found[:5])
        raise InvalidRequest(
            f"folder {name!r} has several GGUF files: name one of {names}", param="folder"
        )
    if not found:
        return None
    with found[0].open("rb") as file:
        if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            raise InvalidRequest(f"{found[0].name} is not a GGUF file", param="folder")
    return found[0]


def _inside(root: Path, name: str) -> Path:
    if "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
        raise InvalidRequest("must be relative to the model root, without '..'", param="folder")
    folder = (root / name).resolve()
    base = root.resolve()
    if folder == base or base not in folder.parents:
        raise InvalidRequest("leads out of the model root", param="folder")
    return folder


def _check_config(config: Path, name: str) -> None:
    if not config.is_file():
        raise InvalidRequest(f"folder {name!r} has no {CONFIG}", param="folder")
    if config.stat().st_size > MAX_CONFIG_BYTES:
        raise InvalidRequest(f"{config.name} of {name!r} is too large", param="folder")
    try:
        parsed = json.loads(config.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{config.name} of {name!r}: {error}", param="folder") from error
    if not isinstance(parsed, dict):
        raise InvalidRequest(f"{config.name} of {name!r} is not an object", param="folder")
