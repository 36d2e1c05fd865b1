"""Build the specs of the online-training children from a fine-tuning request."""

from collections.abc import Callable

from services.contracts.errors import InvalidRequest
from services.contracts.training.online import DistillationMethod, OnlineSettings, TeacherModel
from services.contracts.training.optimizer import TrainingType
from services.core.artifacts import Artifacts, ModelSource, SourceFile
from services.core.db.tables import FileRow
from services.core.process.runtimes import Accelerator, Runtime
from services.datasets.validate import PromptTemplate
from services.models.registry import ResolvedModel, source_of
from services.rewards.needs import gold_sources, needs_gold
from services.trainer.fine_tune import FineTune
from services.trainer.rl.spec import (
    TEACHER,
    GuestSpec,
    Online,
    OnlineTask,
    PromptFilesSpec,
    RemoteTeacher,
    RuntimeSpec,
    TaughtModel,
    is_exact,
    online_method,
    rewards_of,
)

Resolve = Callable[[str], ResolvedModel]

MAX_EVALUATED = 262_144
"""Maximum samples per evaluation: all stay in memory until it finishes."""


def prompts_spec(tune: FineTune, artifacts: Artifacts, resolve: Resolve) -> PromptFilesSpec:
    """What the validation child checks before training."""
    online = online_method(tune.method)
    return PromptFilesSpec(
        training_file=_prompts(tune.training_file, "training_file", artifacts),
        validation_file=_validation(tune, artifacts),
        validation_rows=MAX_EVALUATED // online.hyperparameters.eval_samples,
        prompt_type=online.hyperparameters.prompt_type,
        needs_gold=needs_gold(rewards_of(online)),
        gold_sources=gold_sources(rewards_of(online)),
        needs_answer=learns_from_data(online),
        taught=_taught(tune, online, resolve),
        template=_template(tune.model, online.hyperparameters),
    )


def _template(model: ResolvedModel, settings: OnlineSettings) -> PromptTemplate | None:
    folder = model.tokenizer_folder
    if folder is None:
        return None
    return PromptTemplate(
        folder=folder,
        variables=settings.chat_template_kwargs,
        tools=settings.tools if settings.multi_turn.multi_turn_enable else [],
        neutralizes=settings.control_tokens == "neutralize",
    )


def learns_from_data(online: Online) -> bool:
    """Whether the answers in the data are trained on (distillation without seq_kd)."""
    if not isinstance(online, DistillationMethod):
        return False
    return online.hyperparameters.lmbda < 1.0 and not online.hyperparameters.seq_kd


def online_task(
    tune: FineTune,
    artifacts: Artifacts,
    resolve: Resolve,
    runtimes: tuple[Runtime, Runtime],
    gpus: list[str],
    guests: GuestSpec,
) -> OnlineTask:
    """The coordinator's task. ``runtimes`` are those of training and vLLM."""
    online = online_method(tune.method)
    training, vllm = runtimes
    lora = online.hyperparameters.optimizer.training_type is TrainingType.LORA
    if tune.model.adapter is not None and not lora:
        raise InvalidRequest("an adapter is trained further with training_type lora", param="model")
    if is_exact(online) and gpus:
        raise InvalidRequest(
            "exact_on_policy is for hosts without GPUs, whose kernels round differently",
            param=f"method.{tune.method.type.value}.hyperparameters.exact_on_policy",
        )
    if tune.model.needs_merge:
        message = f"vLLM serves adapter {tune.model.id!r} merged into its base only: merge it first"
        raise InvalidRequest(message, param="model")
    return OnlineTask(
        job_id=tune.job.id,
        model=tune.model.weights,
        adapter=tune.model.adapter,
        stop_token_ids=list(tune.model.stop_token_ids),
        method=tune.method,
        prompts=_prompts(tune.training_file, "training_file", artifacts),
        validation=_validation(tune, artifacts),
        teacher=_teacher(online, resolve),
        training=_runtime_spec(training),
        vllm=_runtime_spec(vllm),
        gpus=gpus,
        seed=tune.request.seed or 0,
        guests=guests,
    )


def _runtime_spec(runtime: Runtime) -> RuntimeSpec:
    on_cpu = runtime.accelerator is Accelerator.CPU
    return RuntimeSpec(python=runtime.python, version=runtime.version, on_cpu=on_cpu)


def reward_model_source(model: ResolvedModel) -> ModelSource:
    """The folder of a reward model; raises `InvalidRequest` for adapters and hub repositories."""
    param = "method.rewards"
    if model.adapter is not None:
        message = f"reward model {model.id!r} is an adapter, not a whole model"
        raise InvalidRequest(message, param=param)
    if model.weights.path is None:
        message = f"reward model {model.id!r} is of a hub; it must be a folder of this host"
        raise InvalidRequest(message, param=param)
    return model.weights


def _teacher(online: Online, resolve: Resolve) -> ModelSource | RemoteTeacher | None:
    if not isinstance(online, DistillationMethod):
        return None
    teacher = online.hyperparameters.teacher
    if not isinstance(teacher, TeacherModel):
        return RemoteTeacher(base_url=teacher.base_url, model=teacher.model, top_k=teacher.top_k)
    model = resolve(teacher.model)
    if model.adapter is not None:
        raise InvalidRequest("a teacher is a whole model, not an adapter", param=TEACHER)
    return model.weights


def _taught(tune: FineTune, online: Online, resolve: Resolve) -> TaughtModel | None:
    teacher = _teacher(online, resolve)
    if not isinstance(teacher, ModelSource) or teacher.path is None:
        return None
    student = tune.model.tokenizer_folder
    return None if student is None else TaughtModel(student=student, teacher=teacher.path)


def _validation(tune: FineTune, artifacts: Artifacts) -> SourceFile | None:
    if tune.request.validation_file is None:
        return None
    return _prompts(tune.validation_file, "validation_file", artifacts)


def _prompts(row: FileRow | None, param: str, artifacts: Artifacts) -> SourceFile:
    if row is None:
        raise InvalidRequest("online training reads an uploaded file", param=param)
    return source_of(row, artifacts)
