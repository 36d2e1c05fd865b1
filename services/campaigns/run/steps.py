"""The steps of a campaign, shared by its branches: which have started, which have finished."""

import threading
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from services.campaigns.run.signals import OutOfTurn
from services.contracts.base import JsonObject
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.campaigns.loops import StepName

Output = TypeVar("Output", bound=BaseModel)

_ONE_BY_ONE = frozenset({StepName.PROPOSAL, StepName.FEEDBACK, StepName.RECORD})
"""Each of these sees the decision of the one before."""


class Steps:
    """Outputs by loop and name, None while a step is in progress. ``lock`` is held from
    `check_turn` to `begin`."""

    def __init__(
        self, request: CreateCampaign, outputs: Mapping[tuple[int, str], JsonObject | None]
    ) -> None:
        self.lock = threading.RLock()
        self._most = dict.fromkeys(StepName, request.branches) | dict.fromkeys(_ONE_BY_ONE, 1)
        for name, most in request.steps_at_once.items():
            self._most[name] = most
        self._outputs = dict(outputs)
        self._changes = 0

    @property
    def changes(self) -> int:
        """Incremented with every step that starts or finishes."""
        return self._changes

    @property
    def begun(self) -> int:
        """How many steps have started, without those of the base model."""
        with self.lock:
            return sum(loop > 0 for loop, _ in self._outputs)

    @property
    def newest_loop(self) -> int:
        """The last loop that has started; 0 before the first."""
        with self.lock:
            return max((loop for loop, _ in self._outputs), default=0)

    def open_loops(self) -> list[int]:
        """The loops that have started and are not recorded, in order."""
        with self.lock:
            begun = {loop for loop, _ in self._outputs if loop}
            return sorted(loop for loop in begun if not self.is_finished(loop, StepName.RECORD))

    def has_begun(self, loop: int, name: StepName) -> bool:
        """Whether a step has started."""
        return (loop, name.value) in self._outputs

    def is_finished(self, loop: int, name: StepName) -> bool:
        """Whether a step has an output."""
        return self._outputs.get((loop, name.value)) is not None

    def is_in_progress(self, name: StepName) -> bool:
        """Whether a loop has started this step and not finished it."""
        return bool(self._under_way(name))

    def output(self, loop: int, name: StepName, kind: type[Output]) -> Output:
        """The output of a finished step."""
        return kind.model_validate(self._outputs[loop, name.value])

    def outputs(self, name: StepName) -> dict[int, JsonObject]:
        """The outputs of a step by loop, for all loops that have finished it, in order."""
        with self.lock:
            found = {
                loop: output
                for (loop, each), output in self._outputs.items()
                if each == name.value and output is not None
            }
        return dict(sorted(found.items()))

    def check_turn(self, name: StepName) -> None:
        """Raise `OutOfTurn` while the maximum number of loops is at this step."""
        under_way = self._under_way(name)
        if len(under_way) >= self._most[name]:
            loops = ", ".join(map(str, under_way))
            raise OutOfTurn(f"waiting for {name.value} of loop {loops}", self._changes)

    def begin(self, loop: int, name: StepName) -> None:
        """Record the start of a step."""
        with self.lock:
            self._outputs[loop, name.value] = None
            self._changes += 1

    def finish(self, loop: int, name: StepName, output: JsonObject) -> None:
        """Record the output of a step."""
        with self.lock:
            self._outputs[loop, name.value] = output
            self._changes += 1

    def _under_way(self, name: StepName) -> list[int]:
        with self.lock:
            return sorted(
                loop
                for (loop, each), output in self._outputs.items()
                if each == name.value and output is None
            )
