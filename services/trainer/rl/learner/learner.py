"""The learner: its models and optimizer, and how it answers each request."""

import shutil
import time
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.training.online import DistillationHyperparameters, PpoHyperparameters
from services.contracts.training.optimizer import OptimizerSettings, TrainingType
from services.models.tokenizer_ids.id_map import map_ids
from services.trainer.rl.batch import TrainingBatch
from services.trainer.rl.extensions import TrainingFunctions, load_functions
from services.trainer.rl.learner.card_memory import CardMemory, HostAdamW
from services.trainer.rl.learner.distillation import (
    Distillation,
    LocalTeacher,
    RemoteTopKTeacher,
    Teacher,
)
from services.trainer.rl.learner.micro_batches import (
    BatchScorer,
    Layout,
    ReferencePolicy,
    TrainedTokens,
    chosen_micro_batching,
    sequence_log_probs,
)
from services.trainer.rl.learner.model import (
    LanguageModel,
    load_frozen,
    load_learner_model,
    stored_dtype,
)
from services.trainer.rl.learner.parallel import CRITIC, POLICY, ProcessGroup
from services.trainer.rl.learner.policy_gradient import PolicyGradient
from services.trainer.rl.learner.protocol import (
    Broadcast,
    DescribeWeights,
    Done,
    Export,
    Finish,
    JoinGroup,
    LearnerSpec,
    MakeGroup,
    MeasureBatch,
    Probe,
    Publish,
    Request,
    Save,
    SendChunk,
    Update,
)
from services.trainer.rl.learner.publishing import Publisher
from services.trainer.rl.learner.sending import WeightSender, can_send
from services.trainer.rl.learner.state import (
    atomic_folder,
    gather_policy_weights,
    gather_state,
    merged_policy_weights,
    restore_state,
    stored_weights,
    write_model,
)
from services.trainer.rl.learner.update import Objective, Updater

MODEL = "model"
TRAINER = "trainer"
"""Subfolders of a checkpoint: the servable policy, and what resuming needs."""


class Learner:
    """A policy that learns from batches. With several processes, each answers every request."""

    def __init__(self, spec: LearnerSpec, processes: ProcessGroup) -> None:
        """Load the models, and restore the checkpoint if there is one."""
        settings = spec.settings
        functions = load_functions(settings)  # first: models take minutes
        optimizer_settings = settings.optimizer
        self._spec = spec
        self._processes = processes
        self._publisher = Publisher()
        self._sender: WeightSender | None = None
        self._sends = False
        self._memory = CardMemory(processes.device, spec.engine)
        batching = chosen_micro_batching(spec, processes.device, processes.world_size)
        self._plain = load_learner_model(
            spec,
            bf16=processes.computes_in_bf16,
            checkpointing=batching.checkpointing,
            on_meta=processes.receives_weights,
        )
        self.trainable_parameters = sum(
            each.numel() for each in self._plain.parameters() if each.requires_grad
        )
        self.padded = self._pack()
        critic = settings.critic if isinstance(settings, PpoHyperparameters) else None
        critic_rate = critic.learning_rate if critic is not None else None
        self._model, optimizer = processes.prepare(
            self._plain,
            lambda model: build_optimizer(
                model, optimizer_settings, critic_rate, on_host=processes.offloads
            ),
        )
        if spec.checkpoint is not None:
            restore_state(spec.checkpoint / TRAINER, self._plain, processes.strategy)
        layout = Layout(batching.tokens, padded=self.padded is not None)
        self._scorer = BatchScorer(self._model, processes, layout)
        self.updater = Updater(
            self._model,
            optimizer,
            build_objective(spec, self._scorer, self._model, self._plain, processes, functions),
            processes,
            warmup_steps=optimizer_settings.warmup_steps,
            layout=layout,
            seed=spec.seed,
            max_response_length=spec.max_response_length,
            exact=spec.is_exact,
        )

    def _pack(self) -> str | None:
        """Compute without padding if the main process, which has the weights, finds that the model
        can do it; returns why not."""
        if self._spec.is_exact:
            self._plain.compute_exactly()
            return None

        def tried() -> bytes:
            return (self._plain.pack_sequences() or "").encode()

        problem = self._processes.broadcast(tried).decode() or None
        if problem is None and not self._processes.is_main:
            self._plain.pack_sequences(tried=True)
        return problem

    @property
    def vocabulary(self) -> int:
        """The model's vocabulary size."""
        return int(self._plain.causal.config.get_text_config().vocab_size)

    def answer(self, request: Request) -> Done:
        """Answer a request."""
        began = time.perf_counter()
        metrics: dict[str, float] = {}
        log_probs: list[list[float]] = []
        changed: list[str] | None = None
        sent: JsonObject | None = None
        match request:
            case Update(step=step, batch=path):
                metrics = self._update(step, path)
            case MeasureBatch(batch=path):
                metrics = self.updater.measure(TrainedTokens.of(TrainingBatch.load(path)))
            case Probe(token_ids=token_ids):
                log_probs = sequence_log_probs(self._log_probs, token_ids)
            case Publish(folder=folder, outdated=outdated):
                changed = self._publish(folder, outdated)
            case SendChunk() | DescribeWeights() | MakeGroup() | JoinGroup() | Broadcast():
                sent = self._send(request) if self._processes.is_main else None
            case Export(folder=folder):
                self._write(folder, durable=True)
            case Save(folder=folder):
                self._save(folder)
            case Finish():
                pass
        self._processes.barrier()
        seconds = time.perf_counter() - began
        return Done(
            seconds=seconds,
            metrics=metrics,
            log_probs=log_probs,
            changed=changed,
            sends=self._sends,
            sent=sent,
        )

    def _update(self, step: int, batch: Path) -> dict[str, float]:
        with self._memory.update():
            result = self.updater.update(TrainedTokens.of(TrainingBatch.load(batch)), step)
        if result.token_values is not None and self._processes.is_main:
            result.token_values.save(batch)
        return result.metrics

    def _log_probs(self, tokens: TrainedTokens) -> Tensor:
        return self._scorer.score(tokens, temperature=1.0).log_probs

    def _write(self, folder: Path, *, durable: bool) -> None:
        keep = self._processes.is_main
        weights = gather_policy_weights(self._plain, self._processes.strategy, keep=keep)
        if keep:
            dtype = self._stored_dtype()
            with atomic_folder(folder, durable=durable) as partial:
                self._write_model(self._plain.model, weights, dtype, partial)

    def _publish(self, folder: Path, outdated: Path | None) -> list[str] | None:
        """Write the weights for an engine; returns the names of those that changed, if known."""
        model, dtype = self._plain.model, self._stored_dtype()
        keep = self._processes.is_main
        if self._spec.publishes_merged:
            # In float32, as they are here: rounded to a base's bfloat16, an adapter loses its
            # updates.
            model, dtype = self._plain.causal, torch.float32
            weights = merged_policy_weights(self._plain)
        else:
            weights = gather_policy_weights(self._plain, self._processes.strategy, keep=keep)
        if not keep:
            return None

        def write(partial: Path) -> None:
            self._write_model(model, weights, dtype, partial)

        if not isinstance(model, PeftModel):
            stored = stored_weights(model, weights, dtype)
            changed = self._publisher.publish(stored, folder, outdated, write)
            self._sends = self._publisher.is_plain and can_send(stored.values())
            return changed
        if outdated is not None:
            shutil.rmtree(outdated)
        with atomic_folder(folder, durable=False) as partial:
            write(partial)
        return None

    def _send(
        self, request: SendChunk | DescribeWeights | MakeGroup | JoinGroup | Broadcast
    ) -> JsonObject | None:
        """Send weights from this GPU; only for a model that is not sharded, nor an adapter."""
        if self._sender is None:
            model = self._plain.model
            weights = stored_weights(model, model.state_dict(), None)
            self._sender = WeightSender(list(weights.items()), self._stored_dtype())
        match request:
            case SendChunk(end=True):
                self._sender.end_chunks()
            case SendChunk():
                return self._sender.next_chunk()
            case DescribeWeights():
                return self._sender.describe()
            case MakeGroup():
                return {"id": self._sender.make_group()}
            case JoinGroup(engine=engine, size=size):
                self._sender.join_group(engine, size)
            case Broadcast(engine=engine):
                self._sender.broadcast(engine)
        return None

    def _save(self, folder: Path) -> None:
        keep = self._processes.is_main
        state = gather_state(self._plain, self._processes.strategy, keep=keep)
        weights = gather_policy_weights(self._plain, self._processes.strategy, keep=keep)
        if keep:
            dtype = self._stored_dtype()
            with atomic_folder(folder, durable=True) as partial:
                (partial / MODEL).mkdir()
                self._write_model(self._plain.model, weights, dtype, partial / MODEL)
                state.write(partial / TRAINER)

    def _write_model(
        self, model: Any, weights: dict[str, Tensor], dtype: torch.dtype, folder: Path
    ) -> None:
        spec = self._spec
        write_model(model, weights, dtype, spec.model, folder, tokenizer=spec.tokenizer)

    def _stored_dtype(self) -> torch.dtype:
        if self._spec.is_exact:
            return torch.float32  # the engine would sample from rounded weights
        return stored_dtype(self._spec.model, trusted=self._spec.model in self._spec.trusted)


def build_optimizer(
    model: LanguageModel,
    settings: OptimizerSettings,
    critic_rate: float | None,
    *,
    on_host: bool = False,
) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) over the trainable parameters, with
    separate learning rates for policy and critic; groups are named after their gradient-norm
    metric; its states stay on the GPU or ``on_host``."""
    critic = [] if model.critic is None else list(model.critic.parameters())
    of_critic = {id(parameter) for parameter in critic}
    policy = [p for p in model.parameters() if p.requires_grad and id(p) not in of_critic]
    groups: list[dict[str, Any]] = [
        {"params": policy, "name": POLICY, "peak": settings.learning_rate}
    ]
    if critic_rate is not None:
        trained = [p for p in critic if p.requires_grad]
        groups.append({"params": trained, "name": CRITIC, "peak": critic_rate})
    return (HostAdamW if on_host else torch.optim.AdamW)(
        groups,
        lr=settings.learning_rate,
        betas=(settings.adam_beta1, settings.adam_beta2),
        weight_decay=settings.weight_decay,
        foreach=False,  # all at once, they take four bytes more per weight for a moment
    )


def build_objective(
    spec: LearnerSpec,
    scorer: BatchScorer,
    model: Any,
    plain: LanguageModel,
    processes: ProcessGroup,
    functions: TrainingFunctions,
) -> Objective:
    """The objective of the spec's method, with the frozen models that it needs and its extensions.

    ``model`` is the wrapped model, ``plain`` the one inside, ``scorer`` scores with it.
    """
    settings = spec.settings
    bf16 = processes.computes_in_bf16
    if isinstance(settings, DistillationHyperparameters):
        return Distillation(model, _teacher(spec, settings, processes), settings.beta)
    reference = None
    if settings.loss.kl is not None:
        if settings.optimizer.training_type is TrainingType.LORA and spec.adapter is None:
            reference = ReferencePolicy(scorer, plain.model)
        else:
            trusted = spec.model in spec.trusted
            frozen = load_frozen(spec.model, spec.adapter, bf16=bf16, trusted=trusted)
            if plain.packs:
                frozen.pack_sequences(tried=True)
            copy = processes.prepare_frozen(frozen)
            reference = ReferencePolicy(BatchScorer(copy, processes, scorer.layout))
    return PolicyGradient(settings, model, scorer, reference, functions)


def _teacher(
    spec: LearnerSpec, settings: DistillationHyperparameters, processes: ProcessGroup
) -> Teacher:
    if spec.teacher is not None:
        trusted = spec.teacher in spec.trusted
        bf16 = processes.computes_in_bf16
        model = load_frozen(spec.teacher, None, bf16=bf16, trusted=trusted)
        model.pack_sequences()
        tokenizer = spec.tokenizer or spec.model
        ids = None if tokenizer == spec.teacher else map_ids(tokenizer, spec.teacher)
        return LocalTeacher(processes.prepare_frozen(model), settings.temperature, ids)
    if settings.temperature != 1.0:
        raise InvalidRequest(
            "must be 1 with a remote teacher, whose full distribution is unknown",
            param="method.distillation.hyperparameters.temperature",
        )
    return RemoteTopKTeacher()
