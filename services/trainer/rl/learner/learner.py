"""The learner: what it holds, and what it does with each request."""

import time
from pathlib import Path

from torch import Tensor

from services.contracts.online import PpoHyperparameters
from services.trainer.rl.learner import states
from services.trainer.rl.learner.exporting import write_model
from services.trainer.rl.learner.folders import complete_folder
from services.trainer.rl.learner.loading import load_learner_model, stored_dtype
from services.trainer.rl.learner.methods import build_objective
from services.trainer.rl.learner.optimiser import build_optimiser
from services.trainer.rl.learner.processes import Processes
from services.trainer.rl.learner.protocol import (
    Done,
    Export,
    Finish,
    Measure,
    Probe,
    Publish,
    Request,
    Save,
    Update,
)
from services.trainer.rl.learner.scoring import Scorer, log_probs_of_all
from services.trainer.rl.learner.spec import LearnerSpec
from services.trainer.rl.learner.trained_tokens import TrainedTokens
from services.trainer.rl.learner.updating import Updater
from services.trainer.rl.sequences import Batch

MODEL = "model"
TRAINER = "trainer"
"""In a checkpoint: the policy as a model that can be served, and what training goes on from."""


class Learner:
    """A policy that learns from batches. Of several processes each answers every request."""

    def __init__(self, spec: LearnerSpec, processes: Processes) -> None:
        """Load the models, and go on from the checkpoint if there is one."""
        settings = spec.settings
        optimisation = settings.optimisation
        self._spec = spec
        self._processes = processes
        self._plain = load_learner_model(spec, half=processes.computes_in_half)
        self.trainable_parameters = sum(
            each.numel() for each in self._plain.parameters() if each.requires_grad
        )
        critic = settings.critic if isinstance(settings, PpoHyperparameters) else None
        critic_rate = critic.learning_rate if critic is not None else None
        self._model, optimiser = processes.place(
            self._plain, lambda model: build_optimiser(model, optimisation, critic_rate)
        )
        if spec.checkpoint is not None:
            states.restore(spec.checkpoint / TRAINER, self._plain, processes.strategy)
        self._scorer = Scorer(self._model, processes, optimisation.micro_batch_tokens)
        self.updater = Updater(
            self._model,
            optimiser,
            build_objective(spec, self._model, self._plain, processes),
            processes,
            optimisation,
            seed=spec.seed,
            max_response_length=spec.max_response_length,
        )

    @property
    def vocabulary(self) -> int:
        """How many tokens the model knows."""
        return int(self._plain.causal.config.get_text_config().vocab_size)

    def answer(self, request: Request) -> Done:
        """Do what is asked."""
        began = time.perf_counter()
        metrics: dict[str, float] = {}
        log_probs: list[list[float]] = []
        match request:
            case Update(step=step, batch=path):
                metrics = self.updater.update(TrainedTokens.of(Batch.load(path)), step)
            case Measure(batch=path):
                metrics = self.updater.measure(TrainedTokens.of(Batch.load(path)))
            case Probe(token_ids=token_ids):
                log_probs = log_probs_of_all(self._log_probs, token_ids)
            case Publish(folder=folder) | Export(folder=folder):
                self._write(folder)
            case Save(folder=folder):
                self._save(folder)
            case Finish():
                pass
        self._processes.barrier()
        seconds = time.perf_counter() - began
        return Done(seconds=seconds, metrics=metrics, log_probs=log_probs)

    def _log_probs(self, tokens: TrainedTokens) -> Tensor:
        return self._scorer.score(tokens, temperature=1.0).log_probs

    def _write(self, folder: Path) -> None:
        weights = states.policy_weights(self._plain, self._processes.strategy)
        if self._processes.leads:
            dtype = stored_dtype(self._spec.model)
            write_model(self._plain.model, weights, dtype, self._spec.model, folder)

    def _save(self, folder: Path) -> None:
        state = states.snapshot(self._plain, self._processes.strategy)
        weights = states.policy_weights(self._plain, self._processes.strategy)
        if self._processes.leads:
            dtype = stored_dtype(self._spec.model)
            with complete_folder(folder) as partial:
                write_model(self._plain.model, weights, dtype, self._spec.model, partial / MODEL)
                state.write(partial / TRAINER)
