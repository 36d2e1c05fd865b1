"""The training itself with LLaMA-Factory, and the finished model."""

import json
import platform
import shutil
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from services.contracts.llamafactory.arguments import check_arguments
from services.contracts.llamafactory.names import Stage
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.rows import RowKind
from services.core.artifacts import write_stop_tokens
from services.core.processors import has_native_bfloat16, usable_cores
from services.inference.merging.weights import adapter_vocabulary
from services.models.capacity.shape import read_shape
from services.trainer.errors import TrainingFailure
from services.trainer.model_files import collect_model, name_base, remove_unfinished
from services.trainer.offline.arguments import (
    GENERATING,
    TrainingEnvironment,
    build_arguments,
    is_sharded,
    left_out_without_gpu,
    stated_arguments,
)
from services.trainer.offline.generation import GenerationSetup, install_generation
from services.trainer.offline.grading import grade_in_child
from services.trainer.offline.job_dir import (
    Context,
    complete_checkpoints,
    newest_resumable,
    remove_others,
)
from services.trainer.offline.library.catalogue import installed_catalogue
from services.trainer.offline.library.internals import (
    llamafactory_module,
    load_in_float32,
    report_phases,
    take_tokenizer_from,
)
from services.trainer.offline.library.named_template import chat_template_of
from services.trainer.offline.library.pissa import Pissa
from services.trainer.offline.library.plain_text import install_plain_text
from services.trainer.offline.library.trainers import install_trainers
from services.trainer.offline.library.untrained_rows import leave_out_untrained
from services.trainer.offline.preparation import Preparation
from services.trainer.offline.progress import Patience, ProgressCallback, TrainerOutcome
from services.trainer.offline.reward_classifier import convert_to_classifier
from services.trainer.offline.rows.encoding import install_rendered_template
from services.trainer.offline.spec import GenerationSpec, TrainingSpec
from services.trainer.offline.tokenizer import adds_tokens, load_tokenizer
from services.trainer.step_metrics import write_step_metrics

_LIBRARIES = ("llamafactory", "torch", "transformers", "peft", "trl", "accelerate", "datasets")


def train(spec: TrainingSpec, preparation: Preparation, context: Context) -> None:
    """Train to the last step and write the result."""
    context.enter("configuring")
    take_tokenizer_from(preparation.tokenizer)
    dtype = stored_dtype(preparation.model, trusted=spec.model.trusted)
    if emulates(dtype):
        load_in_float32()
        _warn(context, f"computing in float32: this processor only emulates {_HALF[dtype]}")
    known = installed_catalogue()
    check_arguments(spec.arguments, spec.stage, known, beside=spec.beside)
    arguments = build_arguments(spec, _environment(spec, preparation, context))
    if context.leads:
        write_stop_tokens(context.output_dir, preparation.stop_token_ids)
    if spec.generation is not None:
        install_generation(_generation(spec, spec.generation, preparation))
    # Before training, so that a template unfit for a reward model is rejected early.
    chat_template = _reward_template(spec, preparation)
    pissa = Pissa(context.output_dir, spec.seed) if spec.arguments.get("pissa_init") else None
    outcome = _run(spec, arguments, pissa, context)
    if context.leads:
        _finish(spec, arguments, outcome, preparation, chat_template, pissa, context)


def emulates(dtype: object) -> bool:
    """Whether weights of this type would be computed on a processor that does not have it."""
    if torch.cuda.is_available() or dtype not in _HALF:
        return False
    return dtype is not torch.bfloat16 or not has_native_bfloat16()


def _reward_template(spec: TrainingSpec, preparation: Preparation) -> str | None:
    """The chat template of a reward model that is trained with a named template."""
    if spec.stage is not Stage.RM or spec.template is None:
        return None
    tokenizer = load_tokenizer(preparation.tokenizer, trusted=spec.model.trusted)
    return chat_template_of(spec.template, tokenizer, spec.arguments)


def _environment(
    spec: TrainingSpec, preparation: Preparation, context: Context
) -> TrainingEnvironment:
    checkpoint = newest_resumable(context.output_dir) if spec.resume else None
    shape = read_shape(preparation.model)
    place = TrainingEnvironment(
        model=preparation.model,
        output_dir=context.output_dir,
        data_dir=context.data_dir,
        template=preparation.data.template,
        rows=preparation.data.training_rows,
        has_validation=preparation.data.validation_rows > 0,
        rows_are_chosen=preparation.data.rows_are_chosen,
        reference=preparation.reference,
        resizes=_has_more_tokens(spec, preparation.model)
        or adds_tokens(spec, preparation.tokenizer, preparation.model),
        resume_from=checkpoint,
        vocabulary=None if shape is None else shape.vocabulary,
        devices=context.processes,
        cpu_cores=usable_cores(),
        has_gpu=torch.cuda.is_available(),
        has_bf16=torch.cuda.is_available() and torch.cuda.is_bf16_supported(),
    )
    if context.leads:
        if checkpoint is None and spec.resume and complete_checkpoints(context.output_dir):
            _warn(context, "no checkpoint has the state of its optimizer: training begins again")
        _clear(context.output_dir, checkpoint)
        _announce(spec, place, context)
    return place


def _has_more_tokens(spec: TrainingSpec, model: Path) -> bool:
    """Whether the adapter that is trained further has embeddings of more tokens than its base."""
    rows = None if spec.adapter is None else adapter_vocabulary(spec.adapter)
    if rows is None:
        return False
    config = AutoConfig.from_pretrained(str(model), trust_remote_code=spec.model.trusted)
    return rows > int(config.get_text_config().vocab_size)


def _clear(output_dir: Path, checkpoint: Path | None) -> None:
    """Remove leftovers of an earlier attempt that this one does not resume from."""
    if checkpoint is None:
        shutil.rmtree(output_dir, ignore_errors=True)
    else:
        remove_others(output_dir, checkpoint)
        remove_unfinished(output_dir)


def _announce(spec: TrainingSpec, place: TrainingEnvironment, context: Context) -> None:
    for name in left_out_without_gpu(spec.arguments, place):
        context.reporter.message(f"{name} needs a GPU and is ignored", "warn", argument=name)
    if spec.sharding is not None and not is_sharded(spec.sharding, place):
        context.reporter.message(f"{spec.sharding.value} needs GPUs and is left out", "warn")
    if place.resume_from is not None:
        path = context.relative(place.resume_from)
        context.reporter.message(f"resuming from {path}", checkpoint=path)


def _generation(
    spec: TrainingSpec, settings: GenerationSpec, preparation: Preparation
) -> GenerationSetup:
    return GenerationSetup(
        max_tokens=settings.max_tokens,
        options={name: spec.arguments[name] for name in GENERATING if name in spec.arguments},
        stop_token_ids=tuple(preparation.stop_token_ids),
        earlier_turns={
            name: frozenset(rows) for name, rows in preparation.data.earlier_turns.items()
        },
        grade=partial(grade_in_child, settings.python, settings.grader),
    )


def _run(
    spec: TrainingSpec, arguments: dict[str, Any], pissa: Pissa | None, context: Context
) -> TrainerOutcome:
    if spec.sharding is not None and spec.sharding.is_zero and arguments["use_cpu"]:
        # Accelerate does it on GPUs only, and ZeRO 3 counts the processes when a model is loaded.
        import_module("deepspeed").init_distributed(dist_backend="gloo")
    install_rendered_template()
    if spec.rows is RowKind.TEXT:
        install_plain_text()
    if spec.template is not None or spec.rows is RowKind.TEXT:
        leave_out_untrained(spec.stage, partial(_warn, context))
    install_trainers(spec.stage, arguments["resume_from_checkpoint"])
    # The library deletes old checkpoints by their time, before the newest one is complete.
    limit = arguments.get("save_total_limit")
    arguments = arguments | {"save_total_limit": None}
    callback = ProgressCallback(context, limit=limit)
    if pissa is not None:
        pissa.install(spec.stage)
        callback = ProgressCallback(context, pissa.publish, limit)
    report_phases(spec.stage, context.enter)
    evaluations = spec.arguments.get("early_stopping_steps")
    patience = Patience(evaluations, context) if isinstance(evaluations, int) else None
    callbacks = [callback] if patience is None else [callback, patience]
    llamafactory_module("train.tuner").run_exp(arguments, callbacks=callbacks)  # adds its own
    unset_hf_deepspeed_config()  # models loaded from here on are not sharded
    outcome = callback.outcome
    outcome.stopped_early = patience is not None and patience.stopped
    if not outcome.stopped_early and not 0 < outcome.max_steps == outcome.global_step:
        raise TrainingFailure(
            f"training ended at step {outcome.global_step} of {outcome.max_steps}"
        )
    return outcome


def _warn(context: Context, text: str) -> None:
    if context.leads:
        context.reporter.message(text, "warn")


def _finish(
    spec: TrainingSpec,
    arguments: dict[str, Any],
    outcome: TrainerOutcome,
    preparation: Preparation,
    chat_template: str | None,
    pissa: Pissa | None,
    context: Context,
) -> None:
    if pissa is not None:
        pissa.convert(context.output_dir)
    model = collect_model(context.output_dir, preparation.stop_token_ids)
    name_base(model.directory, spec.model)
    if spec.stage is Stage.RM:
        ends = preparation.stop_token_ids
        trusted = spec.model.trusted
        convert_to_classifier(
            model.directory, preparation.model, ends, chat_template, trusted=trusted
        )
    elif spec.method is not TrainingType.LORA:
        restore_precision(model.directory, preparation.model, trusted=spec.model.trusted)
    shutil.rmtree(context.data_dir, ignore_errors=True)
    write_step_metrics(context.job_dir)
    context.reporter.finish(
        # The adapter of a reward model is merged.
        kind=(TrainingType.FULL if spec.stage is Stage.RM else spec.method).value,
        model_dir=context.relative(model.directory),
        needs_merge=model.needs_merge,
        stop_token_ids=preparation.stop_token_ids,
        global_step=outcome.global_step,
        max_steps=outcome.max_steps,
        stopped_early=outcome.stopped_early,
        train_loss=outcome.train_loss,
        trained_tokens=outcome.trained_tokens,
        **_row_counts(preparation),
        train_seconds=round(outcome.train_seconds, 3),
        timed_steps=outcome.timed_steps,
        arguments=stated_arguments(spec, arguments),
        library_versions={"python": platform.python_version()}
        | {name: version(name) for name in _LIBRARIES},
    )


def _row_counts(preparation: Preparation) -> dict[str, int]:
    """How many rows were trained and evaluated on; empty for data of earlier versions, which the
    library has split."""
    data = preparation.data
    if not data.rows_are_chosen:
        return {}
    return {"training_rows": data.training_rows, "validation_rows": data.validation_rows}


_HALF = {torch.bfloat16: "bfloat16", torch.float16: "float16"}


def stored_dtype(folder: Path, *, trusted: bool = False) -> Any:
    """The data type that a model's configuration gives its weights; None where it gives none."""
    return AutoConfig.from_pretrained(str(folder), trust_remote_code=trusted).dtype


def restore_precision(directory: Path, base: Path, *, trusted: bool = False) -> None:
    """Convert float32 weights in a folder to the base's half precision, one file at a time."""
    dtype = stored_dtype(base, trusted=trusted)
    if dtype not in _HALF:
        return
    for path in directory.glob("*.safetensors"):
        _convert(path, dtype)
    config_path = directory / "config.json"
    config = json.loads(config_path.read_bytes()) | {"dtype": _HALF[dtype]}
    config_path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _convert(path: Path, dtype: torch.dtype) -> None:
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - safetensors' files are no mappings
    halved = {n: t.to(dtype) if t.dtype == torch.float32 else t for n, t in tensors.items()}
    partial = path.with_suffix(".partial")
    save_file(halved, partial, metadata)
    partial.replace(path)
