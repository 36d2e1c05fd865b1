"""Rollouts as jobs: their child processes and stored results."""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.rollouts import CreateRollout, RolloutStatistics
from services.core.artifacts import Artifacts, ModelSource
from services.core.db.engine import Database
from services.core.operator_environment import OperatorEnvironment
from services.datasets.validate import validation_command
from services.evaluator.models import endpoint_key, model_of, prompt_template
from services.evaluator.rollout.spec import (
    INLINE_PROMPTS,
    SPEC,
    PromptFileSpec,
    RolloutSpec,
)
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import ResolvedModel, get_source_file, resolve_model
from services.rewards.needs import gold_sources, named_reward_models, needs_gold

CHILD = "services.evaluator.rollout.child"
VALIDATION_CHILD = "services.evaluator.rollout.validation"


class RolloutResult(BaseModel):
    """What the rollout child leaves in result.json."""

    statistics: RolloutStatistics


class RolloutHandler:
    """Runs the rollout child, which serves a registered model with vLLM or asks a remote one."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch | None:
        """Check the rows of the file; prompts that came with the request were checked there."""
        request = CreateRollout.model_validate(job.request)
        if request.file is None:
            return None
        with database.read() as session:
            file = get_source_file(session, self._artifacts, request.file)
            template = prompt_template(
                session,
                request.model,
                request.chat_template_kwargs,
                self._settings,
                tools=request.tools if request.multi_turn.multi_turn_enable else [],
                neutralizes=request.control_tokens == "neutralize",
            )
        spec = PromptFileSpec(
            file=file,
            prompt_type=request.prompt_type,
            system_prompt=request.system_prompt,
            needs_gold=needs_gold(request.rewards),
            gold_sources=gold_sources(request.rewards),
            max_prompts=request.max_prompts,
            samples_per_prompt=request.samples_per_prompt,
            template=template,
        )
        return Launch(validation_command(VALIDATION_CHILD, spec, job_dir))

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Play the prompts."""
        request = CreateRollout.model_validate(claim.job.request)
        settings = self._settings
        with database.read() as session:
            reward_models = self._reward_models(session, request)
            spec = RolloutSpec(
                model=model_of(session, request.model, request.engine, settings),
                tokenizer=self._tokenizer(session, request),
                prompts=self._prompts(session, request, job_dir),
                prompt_type=request.prompt_type,
                system_prompt=request.system_prompt,
                max_prompts=request.max_prompts,
                samples_per_prompt=request.samples_per_prompt,
                tools=request.tools,
                agent=request.agent,
                model_name=(
                    request.model if isinstance(request.model, str) else request.model.model
                ),
                multi_turn=request.multi_turn,
                sampling=request.sampling,
                chat_template_kwargs=request.chat_template_kwargs,
                control_tokens=request.control_tokens,
                is_inline=request.file is None,
                rewards=request.rewards,
                seed=request.seed,
                max_concurrency=request.max_concurrency,
            )
        (job_dir / SPEC).write_text(spec.model_dump_json())
        environment = {
            **endpoint_key(request.model, settings),
            **OperatorEnvironment.of(settings, reward_models).variables(),
        }
        return Launch([sys.executable, "-m", CHILD, str(job_dir)], environment)

    def complete(self, _session: Session, _job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Keep the statistics; the trajectories stay in the job's folder."""
        return RolloutResult.model_validate(result).model_dump(mode="json")

    def _tokenizer(self, session: Session, request: CreateRollout) -> ModelSource:
        """That of the model, or the one that the request names for a remote model."""
        name = request.tokenizer or str(request.model)
        return self._resolve(session, name).weights

    def _prompts(self, session: Session, request: CreateRollout, job_dir: Path) -> Path:
        if request.file is not None:
            return get_source_file(session, self._artifacts, request.file).path
        path = job_dir / INLINE_PROMPTS
        path.write_text("".join(json.dumps(row) + "\n" for row in request.prompts or ()))
        return path

    def _resolve(self, session: Session, name: str) -> ResolvedModel:
        settings = self._settings
        return resolve_model(
            session, name, settings.models_folder, self._artifacts, settings.trusted_models
        )

    def _reward_models(self, session: Session, request: CreateRollout) -> dict[str, ModelSource]:
        found: dict[str, ModelSource] = {}
        for name in named_reward_models(request.rewards):
            model = self._resolve(session, name)
            if model.adapter is not None or model.weights.path is None:
                raise InvalidRequest(
                    f"reward model {name!r} must be a folder with whole weights", param="rewards"
                )
            found[name] = model.weights
        return found

    @property
    def _artifacts(self) -> Artifacts:
        return Artifacts(self._settings.home)
