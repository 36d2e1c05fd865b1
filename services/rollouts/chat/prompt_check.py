"""What a model's chat template makes of prompts, said before anything is sampled."""

import re
from collections.abc import Callable, Iterator, Sequence

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.multi_turn import Tool
from services.datasets.conversation import Conversation, read_message
from services.datasets.record import RowError, counted
from services.datasets.rendering.exchanges import render_messages
from services.datasets.rendering.guarded import any_of, guarding, texts_in
from services.datasets.rendering.guarding_template import GuardingTemplate
from services.datasets.rendering.missing_parts import missing_in_prompt
from services.datasets.validate import PromptTemplate
from services.rollouts.chat.examples import FolderTemplate
from services.rollouts.chat.files import read_special_texts

NAMED_ROWS = 20

REFUSED = "cannot be sampled"
LOST = "lose words to the chat template"
OWN_TOOLS = "have tools of their own, which the model is not shown: it is offered the request's"
CONTROL = "hold special tokens in their texts, which are encoded as such"
NEUTRALIZED = "hold special tokens in their texts, which are encoded as ordinary text"
_NOTES = (NEUTRALIZED,)
_OF_ROWS = "tools"


class PromptCheck:
    """Renders the prompts of a file with the tools on offer, and collects what is not in the
    rendered text."""

    def __init__(self, spec: PromptTemplate | None) -> None:
        """None, and a model without a chat template, which is refused where it is loaded, leave
        prompts unchecked."""
        self._template: FolderTemplate | GuardingTemplate | None = None
        self._found: dict[str, list[int]] = {}
        self._examples: dict[str, str] = {}
        if spec is None:
            return
        try:
            template = FolderTemplate(spec.folder, spec.variables)
            special = read_special_texts(spec.folder)
        except InvalidRequest:
            return
        self._template = (
            GuardingTemplate(template, guarding(special)) if spec.neutralizes else (template)
        )
        self._tools = tuple(_schemas(spec.tools))
        self._control = any_of({text for text in special if len(text) > 1})
        self._control_problem = NEUTRALIZED if spec.neutralizes else CONTROL

    def add(
        self,
        row: int,
        messages: Sequence[JsonObject],
        answers: Sequence[JsonObject] = (),
        extra: JsonObject | None = None,
    ) -> None:
        """Render the prompt of a row, and the answers that demonstrate what to write; ``extra`` are
        the other keys of the row."""
        if self._template is None:
            return
        if (extra or {}).get(_OF_ROWS):
            self._note(OWN_TOOLS, row, _OF_ROWS)
        turns = list(map(read_message, (*messages, *answers)))
        conversation = Conversation(tuple(turns), self._tools)
        try:
            text = render_messages(conversation, self._template, prompt=not answers)
            missing = missing_in_prompt(conversation, text)
        except RowError as error:
            self._note(REFUSED, row, error.message)
            return
        if missing:
            self._note(LOST, row, "; ".join(map(str, missing[:3])))
        if control := dict.fromkeys(self._control_tokens([*messages, *answers])):
            self._note(self._control_problem, row, ", ".join([*control][:5]))

    def announce(self, message: Callable[[str, str], None]) -> None:
        """Warn of the rows, with the numbers of the first of them."""
        for problem, rows in self._found.items():
            numbers = ", ".join(map(str, rows[:NAMED_ROWS]))
            more = ", …" if len(rows) > NAMED_ROWS else ""
            text = f"{counted(len(rows), 'prompt')} {problem}: rows {numbers}{more}"
            level = "info" if problem in _NOTES else "warn"
            message(f"{text}; of row {rows[0]}: {self._examples[problem]}", level)

    def _control_tokens(self, messages: Sequence[JsonObject]) -> Iterator[str]:
        for text in texts_in([*messages]):
            yield from re.findall(self._control, text)

    def _note(self, problem: str, row: int, example: str) -> None:
        self._found.setdefault(problem, []).append(row)
        self._examples.setdefault(problem, example)


def _schemas(tools: Sequence[Tool]) -> list[JsonObject]:
    if not tools:
        return []
    from services.rollouts.tools.declaration import declarations  # noqa: PLC0415 - clients of tools

    return [each.schema for each in declarations(tools, "tools")]
