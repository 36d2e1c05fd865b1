"""Folders below the model root that may hold models."""

import os
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.api.models.folders import ADAPTER_CONFIG, CONFIG, inspect_folder
from services.contracts.errors import InvalidRequest
from services.contracts.models.registered import ModelFolder, ModelKind
from services.core.db.tables import ModelRow

MAX_FOLDERS = 200
MAX_VISITED = 5000
MAX_DEPTH = 3
"""Folders of hubs are owner/name; one more level is for collections."""
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def list_folders(session: Session, root: Path) -> tuple[list[ModelFolder], bool]:
    """The folders with files of a model, and empty ones at the top, by name; and whether there are
    more of them than `MAX_FOLDERS`, or than could be looked at."""
    found: list[ModelFolder] = []
    registered = _registered(session)
    for visited, folder in enumerate(_folders(root), 1):
        if visited > MAX_VISITED:
            return found, True
        files, is_leaf = _content(folder)
        depth = len(folder.relative_to(root).parts)
        if not _looks_like_a_model(files) and not (is_leaf and depth == 1):
            continue
        if len(found) == MAX_FOLDERS:
            return found, True
        name = folder.relative_to(root).as_posix()
        found.append(_candidate(root, name, files, registered.get(name, [])))
    return found, False


def _registered(session: Session) -> dict[str, list[str]]:
    models: dict[str, list[str]] = {}
    rows = session.execute(select(ModelRow.folder, ModelRow.id).where(ModelRow.folder.is_not(None)))
    for folder, model in rows:
        models.setdefault(str(folder), []).append(model)
    return models


def _folders(root: Path) -> Iterator[Path]:
    """Folders down to `MAX_DEPTH`, by name, without hidden ones and links."""
    for place, folders, _ in os.walk(root):
        here = Path(place)
        depth = len(here.relative_to(root).parts)
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        if depth >= MAX_DEPTH:
            folders.clear()
        if depth:
            yield here


def _content(folder: Path) -> tuple[dict[str, int], bool]:
    """The sizes of a folder's files by name, and whether it has no folders; empty if it cannot be
    read, which its inspection reports."""
    files, is_leaf = {}, True
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file():
                    files[entry.name] = entry.stat().st_size
                elif entry.is_dir():
                    is_leaf = False
    except OSError:
        return {}, True
    return files, is_leaf


def _looks_like_a_model(files: dict[str, int]) -> bool:
    return any(name in {CONFIG, ADAPTER_CONFIG} or name.endswith(_WEIGHTS) for name in files)


def _candidate(root: Path, name: str, files: dict[str, int], models: list[str]) -> ModelFolder:
    kind: ModelKind | None = None
    problem = None
    try:
        kind = inspect_folder(root, name).kind
    except InvalidRequest as error:
        problem = error.message
    return ModelFolder(
        id=name, kind=kind, bytes=sum(files.values()), problem=problem, models=models
    )
