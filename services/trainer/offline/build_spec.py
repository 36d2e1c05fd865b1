"""From a fine-tuning request to the specs of the validation and the training child."""

import sys
from collections.abc import Mapping
from pathlib import Path

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.names import Stage
from services.contracts.training.fine_tuning import CreateFineTuningJob, MixingSettings
from services.contracts.training.offline import (
    AUTO_EPOCHS,
    OfflineHyperparameters,
    SupervisedHyperparameters,
)
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.rows import HUB_DATASET_PREFIX
from services.core.artifacts import Artifacts, SourceFile
from services.models.registry import ResolvedModel, source_of
from services.trainer.fine_tune import FineTune
from services.trainer.offline.scripts import ScriptRun
from services.trainer.offline.spec import (
    DataSource,
    GenerationSpec,
    Lora,
    Mixture,
    ReferenceSpec,
    TrainingFilesSpec,
    TrainingSpec,
)

AUTO_BATCH_SIZE = 16

BASE_LEARNING_RATE = {TrainingType.FULL: 1e-5, TrainingType.FREEZE: 1e-5, TrainingType.LORA: 1e-4}
"""What a learning_rate_multiplier of 1 means."""

GENTLE = {Stage.DPO: 0.05, Stage.KTO: 0.05}
"""Its factor for stages that start from an already fine-tuned model."""

BATCH_ARGUMENTS = frozenset({"per_device_train_batch_size", "gradient_accumulation_steps"})


def validation_spec(
    tune: FineTune, artifacts: Artifacts, runs: Mapping[str, ScriptRun] | None = None
) -> TrainingFilesSpec | None:
    """What to validate before training; None if all data are on a hub. ``runs`` generate the files
    of dataset scripts."""
    scripts = dict(runs or {})
    if not tune.files and not scripts:
        return None
    return TrainingFilesSpec(
        uploaded={
            **{param: source_of(row, artifacts) for param, row in tune.files.items()},
            **{
                param: SourceFile(path=run.output, filename=run.script.name)
                for param, run in scripts.items()
            },
        },
        scripts=scripts,
        rows=tune.hyperparameters.rows,
        data_format=tune.hyperparameters.data_format,
        max_seq_length=tune.hyperparameters.max_seq_length,
        tokenizer_file=tune.model.tokenizer_file,
        method=tune.method,
        all_uploaded={*tune.files, *scripts}
        >= set(filter(is_training, tune.request.file_references)),
    )


def script_rows(job_id: str, param: str, artifacts: Artifacts) -> Path:
    """The file with the rows that a script generates for a request field."""
    return artifacts.job(job_id) / "script_rows" / f"{param}.jsonl"


def is_training(param: str) -> bool:
    """Whether a request field names training data."""
    return param.startswith("training_file")


def training_spec(tune: FineTune, artifacts: Artifacts) -> TrainingSpec:
    """The training child's task."""
    settings = tune.hyperparameters
    if tune.model.adapter is not None and settings.training_type is not TrainingType.LORA:
        raise InvalidRequest("an adapter is trained further with training_type lora", param="model")
    if tune.model.adapter is not None and settings.llamafactory.get("pissa_init"):
        message = (
            "pissa_init initializes a new adapter, but this one is trained further: merge it first"
        )
        raise InvalidRequest(message, param="model")
    request = tune.request
    mixing = request.mixing or MixingSettings()
    sources = _sources(tune, artifacts)
    training = _training_data(request, sources)
    return TrainingSpec(
        job_id=tune.job.id,
        stage=settings.stage,
        stage_arguments=settings.stage_arguments,
        reference=_reference(tune.reference),
        model=tune.model.weights,
        adapter=tune.model.adapter,
        training_data=training[0],
        mixture=Mixture(
            sources=training[1:],
            strategy=mixing.strategy,
            probabilities=tuple(mixing.probabilities) if mixing.probabilities else None,
        ),
        validation_data=sources.get("validation_file"),
        validation_sets={
            name: sources[f"validation_files.{name}"] for name in request.validation_files or ()
        },
        method=settings.training_type,
        lora=Lora(
            rank=settings.lora.rank,
            alpha=settings.lora.alpha,
            dropout=settings.lora.dropout,
            targets=settings.lora.target_modules,
        ),
        template=settings.template,
        chat_template_kwargs=settings.chat_template_kwargs,
        n_epochs=AUTO_EPOCHS if settings.n_epochs == "auto" else float(settings.n_epochs),
        batch_size=_batch_size(settings),
        learning_rate=_learning_rate(settings),
        max_seq_len=settings.max_seq_length,
        leaves_out_long=settings.long_rows == "leave_out",
        neutralizes=settings.control_tokens == "neutralize",
        joins_turns=settings.join_turns,
        max_lossy_share=settings.max_lossy_share,
        warmup_ratio=settings.warmup_ratio,
        seed=tune.request.seed or 0,
        generation=_generation(settings),
        sharding=settings.sharding,
        arguments=settings.llamafactory,
    )


def _generation(settings: OfflineHyperparameters) -> GenerationSpec | None:
    if not isinstance(settings, SupervisedHyperparameters) or settings.generation is None:
        return None
    return GenerationSpec(
        max_tokens=settings.generation.max_tokens,
        grader=settings.generation.grader,
        python=Path(sys.executable),
    )


def _reference(model: ResolvedModel | None) -> ReferenceSpec | None:
    return None if model is None else ReferenceSpec(model=model.weights, adapter=model.adapter)


def _sources(tune: FineTune, artifacts: Artifacts) -> dict[str, DataSource]:
    """Where the data are, by the request field that names them."""
    data_format = tune.hyperparameters.data_format
    sources = {}
    for param, reference in tune.request.file_references.items():
        row = tune.files.get(param)
        if param in tune.scripts:
            path = script_rows(tune.job.id, param, artifacts)
            sources[param] = DataSource(
                path=path, format=data_format, param=param, filename=tune.scripts[param].path
            )
            continue
        sources[param] = (
            DataSource(
                hub_name=reference.removeprefix(HUB_DATASET_PREFIX),
                format=data_format,
                param=param,
            )
            if row is None
            else DataSource(
                path=artifacts.file(row.id),
                format=data_format,
                param=param,
                filename=row.filename,
            )
        )
    return sources


def _training_data(
    request: CreateFineTuningJob, sources: dict[str, DataSource]
) -> list[DataSource]:
    if request.training_files is None:
        return [sources["training_file"]]
    return [
        sources[f"training_files.{number}.file"].model_copy(
            update={"num_samples": part.num_samples}
        )
        for number, part in enumerate(request.training_files)
    ]


def _batch_size(settings: OfflineHyperparameters) -> int | None:
    if settings.batch_size != "auto":
        return settings.batch_size
    return None if BATCH_ARGUMENTS & settings.llamafactory.keys() else AUTO_BATCH_SIZE


def _learning_rate(settings: OfflineHyperparameters) -> float:
    if settings.learning_rate is not None:
        return settings.learning_rate
    multiplier = settings.learning_rate_multiplier
    base = BASE_LEARNING_RATE[settings.training_type] * GENTLE.get(settings.stage, 1.0)
    return base * (1.0 if multiplier == "auto" else multiplier)
