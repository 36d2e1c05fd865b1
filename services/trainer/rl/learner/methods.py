"""Which objective a fine-tuning method is."""

from typing import Any

from services.contracts.adaptation import TrainingType
from services.contracts.errors import InvalidRequest
from services.contracts.online import DistillationHyperparameters
from services.trainer.rl.learner.distilling import Distillation
from services.trainer.rl.learner.language_model import LanguageModel
from services.trainer.rl.learner.loading import load_frozen
from services.trainer.rl.learner.objective import Objective
from services.trainer.rl.learner.policy_gradient import PolicyGradient
from services.trainer.rl.learner.processes import Processes
from services.trainer.rl.learner.reference import Reference
from services.trainer.rl.learner.scoring import Scorer
from services.trainer.rl.learner.spec import LearnerSpec
from services.trainer.rl.learner.teachers import DistantTeacher, LocalTeacher, Teacher


def build_objective(
    spec: LearnerSpec, model: Any, plain: LanguageModel, processes: Processes
) -> Objective:
    """The objective of the spec's method, with the frozen models that it needs.

    ``model`` is the wrapped one, ``plain`` what it wraps.
    """
    settings = spec.settings
    half = processes.computes_in_half
    limit = settings.optimisation.micro_batch_tokens
    if isinstance(settings, DistillationHyperparameters):
        return Distillation(model, _teacher(spec, settings, processes), settings.beta)
    scorer = Scorer(model, processes, limit)
    reference = None
    if settings.loss.kl is not None:
        if settings.optimisation.training_type is TrainingType.LORA:
            reference = Reference(scorer, plain.model)
        else:
            copy = processes.frozen(load_frozen(spec.model, spec.adapter, half=half))
            reference = Reference(Scorer(copy, processes, limit))
    return PolicyGradient(settings, model, scorer, reference)


def _teacher(
    spec: LearnerSpec, settings: DistillationHyperparameters, processes: Processes
) -> Teacher:
    if spec.teacher is not None:
        model = load_frozen(spec.teacher, None, half=processes.computes_in_half)
        return LocalTeacher(processes.frozen(model), settings.temperature)
    if settings.temperature != 1.0:
        raise InvalidRequest(
            "must be 1 with a teacher by URL, whose distribution is known in part",
            param="method.distillation.hyperparameters.temperature",
        )
    return DistantTeacher()
