"""LLaMA-Factory's training files as fine-tuning jobs."""

from collections.abc import Mapping
from pathlib import Path

from services.contracts.data.files import FilePurpose
from services.contracts.errors import InvalidRequest
from services.contracts.training.fine_tuning import CreateFineTuningJob, Method
from services.contracts.training.offline import OfflineHyperparameters
from services.contracts.training.rows import HUB_DATASET_PREFIX, ScriptReference
from services.mixing.order import Mixing
from temper.formats.llamafactory_datasets import Dataset, DatasetInfo
from temper.formats.llamafactory_rows import merge
from temper.formats.llamafactory_yaml import LlamaFactoryJob, parse_llamafactory_yaml
from temper.submission.submission import LocalFile, Submission, SubmissionError

_NAMED = "validation_files."
PER_DATASET_LIMIT = "max_samples"


def read_llamafactory(path: Path, text: str, scratch: Path) -> Submission:
    """Return the fine-tune that a training file of LLaMA-Factory describes.

    Its datasets are looked up in the ``dataset_info.json`` of its ``dataset_dir``. Several
    datasets, or one with custom columns, are merged into one file in ``scratch``. Raises
    `SubmissionError`.
    """
    try:
        return _read(path, text, scratch)
    except InvalidRequest as error:
        raise SubmissionError(f"{path}: {error.message}") from error


def _read(path: Path, text: str, scratch: Path) -> Submission:
    job = parse_llamafactory_yaml(text)
    info = DatasetInfo.of(path, job.dataset_dir)
    kind = job.hyperparameters.rows
    fields = {
        "training_file": [info.dataset(name, kind) for name in job.datasets],
        **_validation(job, [info.dataset(name, kind) for name in job.eval_datasets]),
    }
    used = {field: datasets for field, datasets in fields.items() if datasets}
    if all(_is_usable_alone(datasets) for datasets in used.values()):
        sources = {field: datasets[0].source for field, datasets in used.items()}
        return _submission(job, job.hyperparameters, sources)
    limit = job.hyperparameters.llamafactory.get(PER_DATASET_LIMIT)
    # Every row of validation data counts once.
    mixings = {"training_file": job.mixing}
    once = Mixing(seed=job.seed)
    merged: dict[str, Path | str] = {
        field: merge(datasets, limit, scratch / f"{field}.jsonl", kind, mixings.get(field, once))
        for field, datasets in used.items()
    }
    return _submission(job, _without_limit(job.hyperparameters), merged)


def _validation(job: LlamaFactoryJob, datasets: list[Dataset]) -> dict[str, list[Dataset]]:
    """Return the evaluation datasets by request field: concatenated, or one field each."""
    if not job.evaluates_each:
        return {"validation_file": datasets}
    return {f"{_NAMED}{dataset.name}": [dataset] for dataset in datasets}


def _is_usable_alone(datasets: list[Dataset]) -> bool:
    return len(datasets) == 1 and datasets[0].is_plain


def _without_limit(hyperparameters: OfflineHyperparameters) -> OfflineHyperparameters:
    """Drop the limit: the trainer would apply it to the merged file, not to each dataset."""
    arguments = dict(hyperparameters.llamafactory)
    arguments.pop(PER_DATASET_LIMIT, None)
    return hyperparameters.model_copy(update={"llamafactory": arguments})


def _reference(source: Path | str | ScriptReference) -> str:
    if isinstance(source, Path):
        return source.name
    return str(source) if isinstance(source, ScriptReference) else HUB_DATASET_PREFIX + source


def _submission(
    job: LlamaFactoryJob,
    hyperparameters: OfflineHyperparameters,
    sources: Mapping[str, Path | str | ScriptReference],
) -> Submission:
    references = {
        # The file's name; its id replaces it after the upload.
        field: _reference(source)
        for field, source in sources.items()
    }
    named = {
        field.removeprefix(_NAMED): reference
        for field, reference in references.items()
        if field.startswith(_NAMED)
    }
    request = CreateFineTuningJob(
        model=job.model,
        seed=job.seed,
        method=Method.of(hyperparameters),
        training_file=references["training_file"],
        validation_file=references.get("validation_file"),
        validation_files=named or None,
    )
    files = tuple(
        LocalFile(field, source, FilePurpose.FINE_TUNE)
        for field, source in sources.items()
        if isinstance(source, Path)
    )
    return Submission(request, files, job.notes, hub_model=job.model)
