"""Which steps of a campaign follow from one, so that they are cleared with it.

Loops that run at once mostly do not know of each other. A step follows from another one if it has
used what that one decided: a later step of its loop; a proposal that was told of it; a verdict
that compared with its model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from services.contracts.base import JsonObject
from services.contracts.campaigns.loops import StepName
from services.jobs.campaign_records import Step

_PLACES = {name: place for place, name in enumerate(StepName)}


@dataclass(frozen=True)
class Cleared:
    """Steps that are cleared: of each loop, the first one, with all after it."""

    first: Mapping[int, StepName]

    def __contains__(self, step: object) -> bool:
        """Whether the step ``(loop, name)`` is cleared."""
        loop, name = cast("Step", step)
        return loop in self.first and _PLACES[name] >= _PLACES[self.first[loop]]


@dataclass(frozen=True)
class Course:
    """How a campaign went: the outputs of its steps, None for those under way, and what each
    proposal was told of when it began."""

    outputs: Mapping[Step, JsonObject | None]
    told: Mapping[int, JsonObject] = field(default_factory=dict)

    def following(self, step: Step) -> Cleared:
        """A step and its dependents."""
        first: dict[int, StepName] = {}
        left = [step]
        while left:
            loop, name = left.pop()
            if loop not in first or _PLACES[name] < _PLACES[first[loop]]:
                first[loop] = name
                left += self._consequences(loop, name)
        return Cleared(first)

    def _consequences(self, loop: int, name: StepName) -> Iterator[Step]:
        """Where other loops start to depend on this one, cleared from the step ``name`` on."""
        verdict = None
        if name is not StepName.RECORD:
            verdict = self.outputs.get((loop, StepName.FEEDBACK))
        for other in {other for other, _ in self.outputs} - {0, loop}:
            knows = (
                loop == 0
                or (name is StepName.PROPOSAL and self._knows_hypothesis(other, loop))
                or (verdict is not None and self._knows_verdict(other, loop))
            )
            if knows:
                yield other, StepName.PROPOSAL
            elif verdict is not None and verdict["accepted"]:
                if self._is_judged_after(other, loop):
                    yield other, StepName.FEEDBACK
                elif self._names_as_best(other, loop):
                    yield other, StepName.RECORD

    def _knows_verdict(self, other: int, loop: int) -> bool:
        told = self.told.get(other)
        if told is None:  # it may have been told of every loop before
            return loop < other
        return loop in {told["best"], told["parent"], *told["tried"]}

    def _knows_hypothesis(self, other: int, loop: int) -> bool:
        told = self.told.get(other, {"under_way": []})
        return loop in told["under_way"] or self._knows_verdict(other, loop)

    def _is_judged_after(self, other: int, loop: int) -> bool:
        """Whether the verdict on ``other`` came after that on ``loop``, or is in progress."""
        step = (other, StepName.FEEDBACK)
        return step in self.outputs and self._order(other) > self._order(loop)

    def _order(self, loop: int) -> float:
        verdict = self.outputs[loop, StepName.FEEDBACK]
        return float("inf") if verdict is None else float(verdict.get("order") or loop)

    def _names_as_best(self, other: int, loop: int) -> bool:
        record = self.outputs.get((other, StepName.RECORD))
        return record is not None and record["best_loop"] == loop
