"""A taskset of verifiers: sums, rewarded for the right number at the end of the answer."""

import re

import verifiers.v1 as vf

SUMS = [(1, 2), (17, 25), (208, 94)]


class AdditionData(vf.TaskData):  # type: ignore[misc]  # untyped here
    """One sum."""

    answer: int


class AdditionTask(vf.Task[AdditionData]):  # type: ignore[misc]  # untyped here
    """Asks for the sum."""

    @vf.reward(weight=1.0)  # type: ignore[untyped-decorator]  # untyped here
    async def right(self, trace: vf.Trace) -> float:
        """1 for the right number."""
        numbers = re.findall(r"-?\d+", trace.last_reply or "")
        return float(numbers[-1:] == [str(self.data.answer)])


class AdditionTaskset(vf.Taskset[AdditionTask, vf.TasksetConfig]):  # type: ignore[misc]  # untyped here
    """All sums, in order."""

    def load(self) -> list[AdditionTask]:
        """The tasks."""
        return [
            AdditionTask(AdditionData(prompt=f"What is {a} + {b}?", answer=a + b)) for a, b in SUMS
        ]


__all__ = ["AdditionTaskset"]
