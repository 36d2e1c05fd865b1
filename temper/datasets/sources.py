"""Sources of dataset rows: files on this machine, or a hub repository."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from services.contracts.base import JsonObject
from services.contracts.training.rows import HUB_DATASET_PREFIX
from temper.datasets.published import PUBLISHED_DATASETS, PublishedDataset
from temper.datasets.rows import SUFFIXES, read_rows
from temper.submission.hub import fetch_hub_file, hub_reason
from temper.submission.submission import SubmissionError, user_path

HUB = "hf://"
_REPOSITORY = re.compile(
    r"hf://(?:datasets/)?(?P<name>\w[\w.-]*/\w[\w.-]*)(?:/(?P<part>.+))?", re.ASCII
)
_HELD_OUT = re.compile(r"(?i)(?<![a-z])(test|valid|validation|val|eval)(?![a-z])")


@dataclass(frozen=True)
class DatasetSource:
    """Rows with their origin, description and license."""

    origin: str
    rows: Iterator[JsonObject]
    description: str = ""
    license: str | None = None


def open_source(given: str) -> DatasetSource:
    """Open a published name, hf://[datasets/]OWNER/NAME[/FOLDER], a file or a folder of files.

    Raises `SubmissionError`.
    """
    if given in PUBLISHED_DATASETS:
        return _of_hub(PUBLISHED_DATASETS[given])
    found = _REPOSITORY.fullmatch(given)
    if found is not None:
        part = re.escape(found["part"]) if found["part"] else ""
        return _of_hub(PublishedDataset(found["name"], "", part=part))
    if given.startswith(HUB):
        raise SubmissionError(f"{given!r} is not hf://OWNER/NAME or hf://OWNER/NAME/FOLDER")
    path = user_path(given)
    if not path.exists():
        names = ", ".join(PUBLISHED_DATASETS)
        raise SubmissionError(
            f"{given!r} is neither a file, a folder, hf://OWNER/NAME nor one of {names}"
        )
    files = [path] if path.is_file() else sorted(_files_below(path))
    if not files:
        raise SubmissionError(f"{path}: holds no {', '.join(SUFFIXES)} file")
    return DatasetSource(path.name, (row for file in files for row in read_rows(file)))


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield row files, except symlinks and the held-out files of test and validation."""
    for path in folder.rglob("*"):
        relative = path.relative_to(folder).as_posix()
        is_rows = path.suffix.lower() in SUFFIXES and not _HELD_OUT.search(relative)
        if is_rows and path.is_file() and not path.is_symlink():
            yield path


def _of_hub(dataset: PublishedDataset) -> DatasetSource:
    from huggingface_hub import HfApi  # noqa: PLC0415 - takes long, rarely needed

    name = dataset.repository
    try:
        about = HfApi().dataset_info(name)
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise SubmissionError(f"{HUB}{name}: {hub_reason(error)}") from error
    files = sorted(
        each.rfilename
        for each in about.siblings or ()
        if each.rfilename.lower().endswith(SUFFIXES)
        and re.search(dataset.part, each.rfilename)
        and (dataset.choose or not _HELD_OUT.search(each.rfilename))
    )
    if not files:
        raise SubmissionError(f"{HUB}{name}: has no training files for this dataset")
    terms = about.card_data.get("license") if about.card_data else None
    return DatasetSource(
        f"{HUB}{name}@{about.sha}",
        _hub_rows(dataset, str(about.sha), files),
        dataset.description or str(about.description or "")[:1000],
        ", ".join(terms) if isinstance(terms, list) else terms,
    )


def _hub_rows(dataset: PublishedDataset, revision: str, files: list[str]) -> Iterator[JsonObject]:
    for file in files:
        path = fetch_hub_file(f"{HUB_DATASET_PREFIX}{dataset.repository}@{revision}/{file}")
        rows = read_rows(path)
        for row in dataset.choose(rows) if dataset.choose else rows:
            yield dataset.convert(file, row)
