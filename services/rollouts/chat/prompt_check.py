"""What a model's chat template leaves out of prompts, said before anything is sampled."""

from collections.abc import Callable, Sequence

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.conversation import read_message
from services.datasets.record import RowError, counted
from services.datasets.rendering.exchanges import render_messages
from services.datasets.rendering.missing_parts import missing_in_prompt
from services.datasets.validate import PromptTemplate
from services.rollouts.chat.examples import FolderTemplate

NAMED_ROWS = 20


class PromptCheck:
    """Renders the prompts of a file, and collects what is not in the rendered text."""

    def __init__(self, spec: PromptTemplate | None) -> None:
        """None, and a model without a chat template, which is refused where it is loaded, leave
        prompts unchecked."""
        self._template: FolderTemplate | None = None
        if spec is not None:
            try:
                self._template = FolderTemplate(spec.folder, spec.variables)
            except InvalidRequest:
                return
        self._found: dict[str, list[int]] = {}
        self._examples: dict[str, str] = {}

    def add(
        self, row: int, messages: Sequence[JsonObject], answers: Sequence[JsonObject] = ()
    ) -> None:
        """Render the prompt of a row, and the answers that demonstrate what to write."""
        if self._template is None:
            return
        turns = list(map(read_message, (*messages, *answers)))
        try:
            text = render_messages(turns, self._template, prompt=not answers)
            missing = missing_in_prompt(turns, text)
        except RowError as error:
            self._note("cannot be sampled", row, error.message)
            return
        if missing:
            example = "; ".join(map(str, missing[:3]))
            self._note("lose words to the chat template", row, example)

    def announce(self, message: Callable[[str, str], None]) -> None:
        """Warn of the rows, with the numbers of the first of them."""
        if self._template is None:
            return
        for problem, rows in self._found.items():
            numbers = ", ".join(map(str, rows[:NAMED_ROWS]))
            more = ", …" if len(rows) > NAMED_ROWS else ""
            text = f"{counted(len(rows), 'prompt')} {problem}: rows {numbers}{more}"
            message(f"{text}; of row {rows[0]}: {self._examples[problem]}", "warn")

    def _note(self, problem: str, row: int, example: str) -> None:
        self._found.setdefault(problem, []).append(row)
        self._examples.setdefault(problem, example)
