"""Drawing prompts, one after the other, without those that are too long."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.contracts.errors import InvalidRequest, JobFailed
from services.rollouts.prompts import Prompt
from services.trainer.rl.order import PromptOrder
from services.trainer.rl.rows import PromptRow


@dataclass(frozen=True)
class Draw:
    """A prompt that was drawn; ``number`` counts all draws from 0."""

    number: int
    row: PromptRow

    @property
    def prompt(self) -> Prompt:
        """What is asked."""
        return self.row.prompt


class Draws:
    """Draws rows in the order of the seed; ``position`` is the number of the next draw.

    ``length_of`` counts the tokens of a prompt; one longer than ``max_length``, or that the chat
    template refuses, is left out. ``skipped`` counts such draws. ``param`` is the field of the
    request that names the file.
    """

    def __init__(
        self,
        rows: Sequence[PromptRow],
        seed: int,
        length_of: Callable[[Prompt], int],
        max_length: int,
        position: int = 0,
        param: str = "training_file",
    ) -> None:
        self._rows = rows
        self._order = PromptOrder(len(rows), seed)
        self._length_of = length_of
        self._max_length = max_length
        self._param = param
        self._refused: dict[int, str] = {}
        self.position = position
        self.skipped = 0

    def at(self, number: int) -> Draw:
        """The draw of a number, as it was before a restart."""
        return Draw(number, self._rows[self._order.row(number)])

    def next(self) -> Draw:
        """The next prompt that can be used; raises `JobFailed` when there is none at all."""
        while len(self._refused) < len(self._rows):
            draw = self.at(self.position)
            self.position += 1
            if self._is_usable(draw.prompt):
                return draw
            self.skipped += 1
        raise self._none_usable()

    def usable(self) -> list[Draw]:
        """Every prompt that can be used, once, whatever was drawn. Raises `JobFailed` when there
        is none."""
        draws = [self.at(number) for number in range(len(self._rows))]
        found = [draw for draw in draws if self._is_usable(draw.prompt)]
        if not found:
            raise self._none_usable()
        return found

    def _none_usable(self) -> JobFailed:
        reason = next(iter(self._refused.values()))
        return JobFailed(
            f"no prompt can be used: {reason}", code="no_usable_prompt", param=self._param
        )

    def _is_usable(self, prompt: Prompt) -> bool:
        if prompt.index not in self._refused and (reason := self._reason(prompt)):
            self._refused[prompt.index] = f"row {prompt.index + 1} {reason}"
        return prompt.index not in self._refused

    def _reason(self, prompt: Prompt) -> str | None:
        try:
            length = self._length_of(prompt)
        except InvalidRequest as error:
            return f"is refused by the chat template: {error.message}"
        if length > self._max_length:
            return f"has {length:,} tokens; max_prompt_length is {self._max_length:,}"
        return None
