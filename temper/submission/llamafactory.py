"""LLaMA-Factory's training files as submissions."""

from pathlib import Path

from services.contracts.errors import InvalidRequest
from services.contracts.files import FilePurpose
from services.contracts.fine_tuning import (
    HUB_DATASET_PREFIX,
    CreateFineTuningJob,
    Method,
    SupervisedHyperparameters,
    SupervisedMethod,
)
from temper.formats.llamafactory_yaml import LlamaFactoryJob, parse_llamafactory_yaml
from temper.submission.dataset_info import Dataset, DatasetInfo
from temper.submission.errors import SubmissionError
from temper.submission.merging import merge
from temper.submission.submission import LocalFile, Submission

PER_DATASET_LIMIT = "max_samples"


def read_llamafactory(path: Path, text: str, scratch: Path) -> Submission:
    """Return the fine-tune that a training file of LLaMA-Factory describes.

    Its datasets are looked up in the ``dataset_info.json`` of its ``dataset_dir``. Several of
    them, or one with columns of its own, are brought into one file in ``scratch``. Raises
    `SubmissionError`.
    """
    try:
        job = parse_llamafactory_yaml(text)
    except InvalidRequest as error:
        raise SubmissionError(f"{path}: {error.message}") from error
    info = DatasetInfo.of(path, job.dataset_dir)
    fields = {
        "training_file": [info.dataset(name) for name in job.datasets],
        "validation_file": [info.dataset(name) for name in job.eval_datasets],
    }
    used = {field: datasets for field, datasets in fields.items() if datasets}
    if all(_is_usable_alone(datasets) for datasets in used.values()):
        sources = {field: datasets[0].source for field, datasets in used.items()}
        return _submission(job, job.hyperparameters, sources)
    limit = job.hyperparameters.llamafactory.get(PER_DATASET_LIMIT)
    merged: dict[str, Path | str] = {
        field: merge(datasets, limit, scratch / f"{field}.jsonl")
        for field, datasets in used.items()
    }
    return _submission(job, _without_limit(job.hyperparameters), merged)


def _is_usable_alone(datasets: list[Dataset]) -> bool:
    return len(datasets) == 1 and datasets[0].is_plain


def _without_limit(hyperparameters: SupervisedHyperparameters) -> SupervisedHyperparameters:
    """The trainer would apply the limit to all the datasets together, which it never meant."""
    arguments = dict(hyperparameters.llamafactory)
    arguments.pop(PER_DATASET_LIMIT, None)
    return hyperparameters.model_copy(update={"llamafactory": arguments})


def _submission(
    job: LlamaFactoryJob,
    hyperparameters: SupervisedHyperparameters,
    sources: dict[str, Path | str],
) -> Submission:
    references = {
        # A file's name stands for its id until it is uploaded.
        field: source.name if isinstance(source, Path) else HUB_DATASET_PREFIX + source
        for field, source in sources.items()
    }
    request = CreateFineTuningJob(
        model=job.model,
        seed=job.seed,
        method=Method(supervised=SupervisedMethod(hyperparameters=hyperparameters)),
        training_file=references["training_file"],
        validation_file=references.get("validation_file"),
    )
    files = tuple(
        LocalFile(field, source, FilePurpose.FINE_TUNE)
        for field, source in sources.items()
        if isinstance(source, Path)
    )
    return Submission(request, files, job.notes, model_may_be_of_hub=True)
