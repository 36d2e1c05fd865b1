"""What a model's chat template makes of prompts, said before anything is sampled."""

import json
import re
from collections.abc import Iterator, Sequence

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.sources import applies, source_of
from services.contracts.training.fidelity import (
    FIDELITY,
    MAX_NAMED_ROWS,
    FidelityReport,
    Finding,
    FindingCode,
    SampleRow,
    TrainedText,
)
from services.datasets.conversation import Conversation, read_message
from services.datasets.record import RowError, counted
from services.datasets.rendering.exchanges import render_messages
from services.datasets.rendering.fidelity import NOTES, SAMPLE_CHARACTERS, SAMPLES
from services.datasets.rendering.guarded import any_of, guarding, texts_in, without_guards
from services.datasets.rendering.guarding_template import GuardingTemplate
from services.datasets.rendering.missing_parts import missing_in_prompt
from services.datasets.validate import FileValidation, PromptTemplate
from services.rollouts.chat.examples import FolderTemplate
from services.rollouts.chat.files import read_special_texts

_OF_ROWS = "tools"


class PromptCheck:
    """Renders the prompts of a file with the tools on offer, and collects what is not in the
    rendered text."""

    def __init__(self, spec: PromptTemplate | None) -> None:
        """None, and a model without a chat template, which is refused where it is loaded, leave
        prompts unchecked."""
        self._template: FolderTemplate | GuardingTemplate | None = None
        self._rows = 0
        self._found: dict[FindingCode, list[int]] = {}
        self._examples: dict[FindingCode, str] = {}
        self._samples: list[SampleRow] = []
        if spec is None:
            return
        try:
            template = FolderTemplate(spec.folder, spec.variables)
            special = read_special_texts(spec.folder)
        except InvalidRequest:
            return
        guards = spec.neutralizes
        self._template = GuardingTemplate(template, guarding(special)) if guards else template
        self._tools = _schemas(spec.tools)
        self._special = any_of({text for text in special if len(text) > 1})
        self._of_special = FindingCode.NEUTRALIZED if guards else FindingCode.CONTROL_TOKENS

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
        self._rows += 1
        if (extra or {}).get(_OF_ROWS):
            self._note(FindingCode.OWN_TOOLS, row, _OF_ROWS)
        turns = tuple(map(read_message, (*messages, *answers)))
        source = source_of(extra or {})
        tools = tuple(schema for sources, schema in self._tools if applies(sources, source))
        conversation = Conversation(turns, tools)
        try:
            text = render_messages(conversation, self._template, prompt=not answers)
            missing = [str(each) for each in missing_in_prompt(conversation, text)]
        except RowError as error:
            self._note(FindingCode.REFUSED, row, error.message)
            return
        if missing:
            self._note(FindingCode.LOST_CONTEXT, row, "; ".join(missing[:3]))
        if special := dict.fromkeys(self._special_tokens([*messages, *answers])):
            self._note(self._of_special, row, ", ".join([*special][:5]))
        if len(self._samples) < SAMPLES:
            shown = TrainedText(text=without_guards(text)[:SAMPLE_CHARACTERS], trained=False)
            sample = SampleRow(row=row, sequences=[[shown]], missing=missing[:20], cut_tokens=0)
            self._samples.append(sample)

    def finish(self, file: FileValidation) -> None:
        """Warn of the rows of each finding, and store the report with the job. Raises
        InvalidRequest where the template refuses every prompt."""
        report = self.report()
        if report is None:
            return
        for finding in report.findings:
            numbers = ", ".join(map(str, finding.first_rows))
            more = ", …" if finding.rows > len(finding.first_rows) else ""
            text = f"{counted(finding.rows, 'prompt')} {finding.message}"
            place = f"rows {numbers}{more}; of row {finding.first_rows[0]}"
            level = "info" if finding.code in NOTES else "warn"
            file.message(f"{text}: {place}: {self._examples[finding.code]}", level)
        path = file.job_dir / FIDELITY
        stored = json.loads(path.read_bytes()) if path.is_file() else {}
        stored[file.param] = report.model_dump(mode="json")
        path.write_text(json.dumps(stored, ensure_ascii=False, indent=1), encoding="utf-8")
        if report.verdict == "refused":
            raise InvalidRequest(f"{file.filename}: {report.summary}", param=file.param)

    def report(self) -> FidelityReport | None:
        """The findings so far; None without a prompt that is checked."""
        if not self._rows:
            return None
        findings = [
            Finding(
                code=code,
                rows=len(rows),
                first_rows=rows[:MAX_NAMED_ROWS],
                message=_MESSAGES[code],
            )
            for code in FindingCode
            if (rows := self._found.get(code))
        ]
        refused = len(self._found.get(FindingCode.REFUSED, ()))
        faults = [each for each in findings if each.code not in NOTES]
        kinds = ", ".join(f"{each.code.value} {each.rows:,}" for each in faults)
        usable = counted(self._rows - refused, "prompt")
        summary = f"{usable} of {self._rows:,} can be sampled; findings by row: {kinds or 'none'}"
        if refused == self._rows:
            reason = self._examples[FindingCode.REFUSED]
            summary = f"the chat template refuses every prompt; the first: {reason}"
        return FidelityReport(
            rows=self._rows,
            lossy_rows=len(self._found.get(FindingCode.LOST_CONTEXT, ())),
            left_out=refused,
            findings=findings,
            samples=self._samples,
            verdict=(
                "refused" if refused == self._rows else "with_findings" if faults else "faithful"
            ),
            summary=summary,
        )

    def _special_tokens(self, messages: Sequence[JsonObject]) -> Iterator[str]:
        for text in texts_in([*messages]):
            yield from re.findall(self._special, text)

    def _note(self, code: FindingCode, row: int, example: str) -> None:
        self._found.setdefault(code, []).append(row)
        self._examples.setdefault(code, example)


_MESSAGES = {
    FindingCode.REFUSED: "cannot be sampled",
    FindingCode.LOST_CONTEXT: "lose words to the chat template",
    FindingCode.OWN_TOOLS: "have tools of their own, which the model is not shown: it is offered "
    "those of the request",
    FindingCode.CONTROL_TOKENS: "hold special tokens in their texts, which are encoded as such",
    FindingCode.NEUTRALIZED: "hold special tokens in their texts, which are encoded as ordinary "
    "text",
}


def _schemas(tools: Sequence[Tool]) -> list[tuple[Sequence[str] | None, JsonObject]]:
    """The declared schemas, each with the sources whose rows are offered it."""
    if not tools:
        return []
    from services.rollouts.tools.declaration import declarations  # noqa: PLC0415 - clients of tools

    known = ((each.sources, each.schema) for each in declarations(tools, "tools"))
    # Servers tell the others later.
    return [(sources, schema) for sources, schema in known if schema is not None]
