"""The report of what becomes of a file's rows, collected row by row in bounded memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from services.contracts.errors import InvalidRequest
from services.contracts.training.fidelity import (
    DEFAULT_LOSSY_SHARE,
    MAX_NAMED_ROWS,
    FidelityReport,
    Finding,
    FindingCode,
    SampleRow,
    TrainedText,
)
from services.datasets.record import counted
from services.datasets.rendering.rows import RenderedRow, TrainingSequence

SAMPLES = 3
SAMPLE_CHARACTERS = 4000
_MAX_MISSING = 20

_LOST = (FindingCode.LOST, FindingCode.LOST_CONTEXT)
NOTES = (FindingCode.TRUNCATED, FindingCode.NEUTRALIZED)
"""Findings that follow from a setting, and are no fault of the row or the template."""


class FidelityCounter:
    """Collects the findings of rows."""

    def __init__(
        self, special: frozenset[str], max_lossy_share: float = DEFAULT_LOSSY_SHARE
    ) -> None:
        """``special`` are the texts of the tokenizer's special tokens, of which one should end each
        answer."""
        self._ends = tuple(special)
        self._max_lossy_share = max_lossy_share
        self._found: dict[FindingCode, _Found] = {}
        self._samples: list[SampleRow] = []
        self._rows = self._lossy = self._left_out = 0

    def add(self, number: int, row: RenderedRow) -> None:
        """Count a row."""
        self._rows += 1
        self._lossy += bool(row.missing)
        self._left_out += not row.usable
        for code, example in _findings(row, self._ends):
            self._found.setdefault(code, _Found(example)).add(number)
        if len(self._samples) < SAMPLES:
            self._samples.append(_sample(number, row))

    def report(self) -> FidelityReport | None:
        """The report so far; None without any row."""
        if not self._rows:
            return None
        found = [
            Finding(
                code=code,
                rows=each.rows,
                first_rows=each.first,
                message=_MESSAGES[code].format(example=each.example),
            )
            for code in FindingCode
            if (each := self._found.get(code)) is not None
        ]
        reason = self._refusal()
        findings = [each for each in found if each.code not in NOTES]
        summary = reason or _summary(self._rows, self._left_out, findings)
        return FidelityReport(
            rows=self._rows,
            lossy_rows=self._lossy,
            left_out=self._left_out,
            findings=found,
            samples=self._samples,
            verdict="refused" if reason else "with_findings" if findings else "faithful",
            summary=summary,
        )

    def _refusal(self) -> str | None:
        if self._left_out == self._rows:
            differs = set(self._found) & {FindingCode.UNTRAINED, FindingCode.TOO_LONG}
            what = "token to learn" if differs else "pair with a difference"
            return f"no row keeps a {what} within max_seq_length"
        if self._lossy > self._max_lossy_share * self._rows:
            worst = next(self._found[code] for code in _LOST if code in self._found)
            return (
                f"{counted(self._lossy, 'row')} of {self._rows:,} lose words to the chat template, "
                f"as row {worst.first[0]} does: {worst.example}; max_lossy_share allows a share of "
                f"{self._max_lossy_share:g}"
            )
        return None


def warnings_of(row: RenderedRow, special: frozenset[str]) -> list[str]:
    """What a person should know of a row, beside what the chat template leaves out."""
    shown = (each for each in _findings(row, tuple(special)) if each[0] not in _LOST)
    return [_MESSAGES[code].format(example=example) for code, example in shown]


def _findings(row: RenderedRow, ends: tuple[str, ...]) -> Iterator[tuple[FindingCode, str]]:
    """The findings of a row, each with an example."""
    for code, is_learned in zip(_LOST, (True, False), strict=True):
        if lost := [str(each) for each in row.missing if each.is_learned is is_learned]:
            yield code, "; ".join(lost[:3])
    if row.is_left_out_as_long:
        yield FindingCode.TOO_LONG, ""
    elif row.is_equal_pair:
        yield FindingCode.EQUAL_PAIR, ""
    elif not row.usable:
        yield FindingCode.UNTRAINED, ""
    if any(not exchange.is_served for each in row.sequences for exchange in each.exchanges):
        yield FindingCode.OTHER_CONTEXT, ""
    if row.control_tokens:
        code = FindingCode.NEUTRALIZED if row.neutralizes else FindingCode.CONTROL_TOKENS
        yield code, ", ".join(row.control_tokens[:5])
    if not row.is_left_out_as_long and any(each.tokens.cut for each in row.sequences):
        yield FindingCode.TRUNCATED, ""
    open_ends = (text[-40:] for text in _responses(row) if not text.endswith(ends))
    if (open_end := next(open_ends, None)) is not None:
        yield FindingCode.NO_STOP, repr(open_end)


class UnfaithfulFile(InvalidRequest):
    """Too many rows whose words do not reach the weights, or none that training can learn from."""

    code = "invalid_training_file"


def check_fidelity(report: FidelityReport, param: str | None, filename: str) -> None:
    """Raise `UnfaithfulFile` for rows that must not be trained."""
    if report.verdict == "refused":
        raise UnfaithfulFile(f"{filename}: {report.summary}", param=param)


def announce(report: FidelityReport, message: Callable[[str, str], None]) -> None:
    """Report each finding to the user as a message with its level."""
    for finding in report.findings:
        numbers = ", ".join(map(str, finding.first_rows))
        more = ", …" if finding.rows > len(finding.first_rows) else ""
        rows = f"{counted(finding.rows, 'row')} ({numbers}{more})"
        message(f"{rows}: {finding.message}", "info" if finding.code in NOTES else "warn")


@dataclass
class _Found:
    """Rows with a finding, and an example of the first."""

    example: str
    rows: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, row: int) -> None:
        self.rows += 1
        if len(self.first) < MAX_NAMED_ROWS:
            self.first.append(row)


_MESSAGES = {
    FindingCode.LOST: "the chat template leaves out words to learn: {example}",
    FindingCode.LOST_CONTEXT: "the chat template leaves out words of the context: {example}",
    FindingCode.UNTRAINED: "left out: truncation leaves no token to learn",
    FindingCode.EQUAL_PAIR: "left out: both answers are the same within max_seq_length",
    FindingCode.TOO_LONG: "left out: longer than max_seq_length",
    FindingCode.NO_STOP: "no special token ends the answer, so the model does not learn to stop: "
    "{example}",
    FindingCode.OTHER_CONTEXT: "the prompt that serving sends ends differently from the context of "
    "an answer",
    FindingCode.CONTROL_TOKENS: "texts hold special tokens, which are encoded as such unless "
    "control_tokens is neutralize: {example}",
    FindingCode.NEUTRALIZED: "texts hold special tokens, which are encoded as ordinary text; "
    "servings encode those of their requests as such: {example}",
    FindingCode.TRUNCATED: "longer than max_seq_length, and truncated",
}


def _responses(row: RenderedRow) -> Iterator[str]:
    for each in row.sequences:
        if each.part != "text" and not each.tokens.cut:
            yield from (exchange.response for exchange in each.exchanges)


def _summary(rows: int, left_out: int, findings: list[Finding]) -> str:
    trained = counted(rows - left_out, "row")
    if not findings:
        return f"{trained} can be trained as given"
    kinds = ", ".join(f"{each.code.value} {each.rows:,}" for each in findings)
    return f"{trained} of {rows:,} can be trained; findings by row: {kinds}"


def _sample(number: int, row: RenderedRow) -> SampleRow:
    return SampleRow(
        row=number,
        sequences=[trained_texts(each) for each in row.sequences],
        missing=[str(each) for each in row.missing[:_MAX_MISSING]],
        cut_tokens=sum(each.tokens.cut for each in row.sequences),
    )


def trained_texts(
    sequence: TrainingSequence, most_characters: int = SAMPLE_CHARACTERS
) -> list[TrainedText]:
    """The text of a sequence by whether it has a loss, up to a number of characters."""
    tokens = zip(sequence.tokens.tokens, sequence.tokens.mask, strict=True)
    texts, left = [], most_characters
    for trained, group in groupby(tokens, key=lambda each: each[1]):
        text = "".join(token.text for token, _ in group)
        texts.append(TrainedText(text=text[:left], trained=trained))
        left -= len(text)
        if left <= 0:
            break
    return texts
