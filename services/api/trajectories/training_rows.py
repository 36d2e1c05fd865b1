"""Rows of training files from trajectories, each with its origin."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from services.api.trajectories.conversations import (
    Conversation,
    conversations,
    prompt_of,
    shared_messages,
)
from services.contracts.base import JsonObject
from services.contracts.rollouts.training_rows import MAX_REASONS, RowLayout, RowsLeftOut
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.record import RowError
from services.datasets.training_rows import TrainingRowReader
from services.rollouts.parsers import ToolParser
from services.rollouts.prompts import prompt_of_row

_OTHER = "other reasons"
_CUT_OFF = "a turn of the model was cut off"
_FINISHED = frozenset({FinishReason.ANSWERED, FinishReason.ENVIRONMENT_DONE})
"""How a rollout ends that is worth imitating as a whole."""


@dataclass
class Refused:
    """What gave no row, counted by reason."""

    counts: dict[str, RowsLeftOut] = field(default_factory=dict)

    def add(self, reason: str, what: str) -> None:
        """Count one more."""
        if reason not in self.counts and len(self.counts) >= MAX_REASONS - 1:
            reason = _OTHER
        known = self.counts.setdefault(reason, RowsLeftOut(reason=reason, count=0, first=what))
        known.count += 1

    def by_count(self) -> list[RowsLeftOut]:
        """The reasons, the most frequent first."""
        return sorted(self.counts.values(), key=lambda each: -each.count)


@dataclass(frozen=True)
class Source:
    """The job whose trajectories become rows, and how its model writes calls."""

    job_id: str
    model: str
    parser: ToolParser


def rows_of(
    layout: RowLayout, trajectories: Iterable[Trajectory], source: Source, refused: Refused
) -> Iterator[JsonObject]:
    """The rows of a layout; what gives none is counted in ``refused``."""
    usable = _usable(trajectories, refused)
    match layout:
        case RowLayout.SUPERVISED:
            yield from _demonstrations(usable, source, refused)
        case RowLayout.PREFERENCE:
            yield from _preferences(usable, source, refused)
        case RowLayout.REINFORCEMENT:
            yield from _prompts(usable, source, refused)


def _usable(trajectories: Iterable[Trajectory], refused: Refused) -> Iterator[Trajectory]:
    for each in trajectories:
        if each.left_out is not None or each.finish_reason.is_failure:
            refused.add("no sample of the policy: the infrastructure failed it", each.id)
        elif each.agent is not None and not each.agent.messages:
            refused.add("the session was recorded without its messages", each.id)
        else:
            yield each


def _demonstrations(
    trajectories: Iterable[Trajectory], source: Source, refused: Refused
) -> Iterator[JsonObject]:
    reader = TrainingRowReader(RowKind.DEMONSTRATION, DataFormat.CHAT)
    for trajectory in trajectories:
        if trajectory.finish_reason not in _FINISHED:
            ending = trajectory.finish_reason.value
            refused.add(f"ended before the model had finished: {ending}", trajectory.id)
            continue
        for each in conversations(trajectory, source.parser):
            if _is_cut_off(trajectory, each.sequence):
                refused.add(_CUT_OFF, trajectory.id)
                continue
            provenance = {**_origin(trajectory, source), "sequence": each.sequence}
            row = _row({"messages": each.messages}, each.tools, provenance)
            if _is_valid(reader, row, trajectory.id, refused):
                yield row


def _preferences(
    trajectories: Iterable[Trajectory], source: Source, refused: Refused
) -> Iterator[JsonObject]:
    reader = TrainingRowReader(RowKind.PREFERENCE, DataFormat.CHAT)
    pairs: dict[int, tuple[Trajectory, Trajectory]] = {}
    for each in trajectories:
        if each.reward is None:
            refused.add("no reward", each.id)
            continue
        if _is_cut_off(each):
            refused.add(_CUT_OFF, each.id)
            continue
        slim = each.model_copy(update=_NO_TOKENS)
        best, worst = pairs.get(each.prompt_index, (slim, slim))
        pairs[each.prompt_index] = (
            slim if _reward(slim) > _reward(best) else best,
            slim if _reward(slim) < _reward(worst) else worst,
        )
    for index, (best, worst) in pairs.items():
        name = f"prompt {index}"
        if best.reward == worst.reward:
            refused.add("all samples of the prompt have one reward", name)
            continue
        row = _preference(best, worst, source)
        if row is None:
            refused.add("best and worst sample part where the model has no turn", name)
        elif _is_valid(reader, row, name, refused):
            yield row


_NO_TOKENS: dict[str, list[int]] = {
    name: []
    for name in (
        "prompt_token_ids",
        "response_token_ids",
        "response_mask",
        "log_probs",
        "policy_versions",
    )
}
"""What is not kept of samples that wait for the others of their prompt."""


def _preference(best: Trajectory, worst: Trajectory, source: Source) -> JsonObject | None:
    """The turns at which two conversations part, after what they share."""
    preferred, rejected = (_own(each, source) for each in (best, worst))
    count = shared_messages(preferred.messages, rejected.messages)
    sides = [each.messages[count : count + 1] for each in (preferred, rejected)]
    if any(not side or side[0].get("role") != "assistant" for side in sides):
        return None
    asked: JsonObject = {"messages": preferred.messages[:count]}
    if preferred.tools:
        asked["tools"] = preferred.tools
    return {
        "input": asked,
        "preferred_output": sides[0],
        "non_preferred_output": sides[1],
        "provenance": {
            "preferred": _origin(best, source),
            "rejected": _origin(worst, source),
        },
    }


def _prompts(
    trajectories: Iterable[Trajectory], source: Source, refused: Refused
) -> Iterator[JsonObject]:
    rows: dict[int, JsonObject] = {}
    rewards: dict[int, list[float]] = {}
    for each in trajectories:
        if each.reward is None:
            refused.add("no reward", each.id)
            continue
        rewards.setdefault(each.prompt_index, []).append(each.reward)
        asked = {"messages": prompt_of(each), "gold": each.gold}
        rows.setdefault(each.prompt_index, {**each.extra, **asked})
    for index, row in rows.items():
        earned = rewards[index]
        provenance = {
            "job": source.job_id,
            "model": source.model,
            "prompt": index,
            "samples": len(earned),
            "mean_reward": sum(earned) / len(earned),
        }
        try:
            prompt_of_row(row, index)
        except RowError as error:
            refused.add(error.message, f"prompt {index}")
        else:
            yield {**row, "provenance": provenance}


def _is_cut_off(trajectory: Trajectory, sequence: int = 0) -> bool:
    """Whether a turn of a conversation ran into a limit of tokens: as a message it would be taught
    as if the model had ended there."""
    if sequence and trajectory.agent is not None:
        return trajectory.agent.other_sequences[sequence - 1].cut_off
    return any(turn.finish_reason == "length" for turn in trajectory.turns)


def _own(trajectory: Trajectory, source: Source) -> Conversation:
    return next(conversations(trajectory, source.parser))


def _reward(trajectory: Trajectory) -> float:
    return trajectory.reward or 0.0


def _origin(trajectory: Trajectory, source: Source) -> JsonObject:
    return {
        "job": source.job_id,
        "model": source.model,
        "trajectory": trajectory.id,
        "prompt": trajectory.prompt_index,
        "sample": trajectory.sample_index,
        "reward": trajectory.reward,
        "finish_reason": trajectory.finish_reason.value,
    }


def _row(row: JsonObject, tools: list[JsonObject], provenance: JsonObject) -> JsonObject:
    return {**row, **({"tools": tools} if tools else {}), "provenance": provenance}


def _is_valid(reader: TrainingRowReader, row: JsonObject, name: str, refused: Refused) -> bool:
    """Whether training would read the row."""
    try:
        reader.read(row)
    except RowError as error:
        refused.add(error.message, name)
        return False
    return True
