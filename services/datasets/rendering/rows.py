"""Rows of training files as the sequences that training reads, with what becomes of their words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from services.contracts.training.rows import RowKind
from services.datasets.conversation import Conversation, ConversationRow
from services.datasets.record import JsonValue
from services.datasets.rendering.exchanges import (
    Exchange,
    TemplateRenderer,
    as_chat_message,
    opened,
    render,
    render_answer,
    render_pair,
)
from services.datasets.rendering.guarded import any_of, guarding, texts_in
from services.datasets.rendering.guarding_template import GuardingTemplate
from services.datasets.rendering.missing_parts import Missing, missing_parts
from services.datasets.rendering.text_encoding import TextEncoder
from services.datasets.rendering.training_tokens import (
    TokenSettings,
    TrainingTokens,
    answer_tokens,
    conversation_tokens,
    text_tokens,
)

SequencePart = Literal["conversation", "preferred", "rejected", "answer", "text"]


@dataclass(frozen=True)
class TrainingSequence:
    """A sequence that training reads, and which answer of its row it ends with.

    Its text is that of the ``exchanges``; ``tokens`` are those that fit.
    """

    part: SequencePart
    exchanges: tuple[Exchange, ...]
    tokens: TrainingTokens

    @property
    def is_trained(self) -> bool:
        """Whether any token has a loss."""
        # The first token has no context to be learned in.
        return any(self.tokens.mask[1:])


@dataclass(frozen=True)
class RenderedRow:
    """The sequences of a row: one or more of a demonstration, two of a preference.

    ``label`` says whether the answer of a row with feedback is desirable; None for other kinds.
    ``control_tokens`` are special tokens that the row's own texts hold, and ``neutralizes`` says
    that they are encoded as text.
    """

    sequences: tuple[TrainingSequence, ...]
    label: bool | None = None
    missing: tuple[Missing, ...] = ()
    control_tokens: tuple[str, ...] = ()
    is_pair: bool = field(default=False, repr=False)
    leaves_out_long: bool = field(default=False, repr=False)
    neutralizes: bool = field(default=False, repr=False)

    @property
    def is_left_out_as_long(self) -> bool:
        """Whether the row is longer than allowed, and left out instead of truncated."""
        return self.leaves_out_long and any(each.tokens.cut for each in self.sequences)

    @property
    def is_equal_pair(self) -> bool:
        """Whether both answers of a preference are the same after truncation."""
        if not self.is_pair:
            return False
        first, second = ([token.id for token in each.tokens.tokens] for each in self.sequences)
        return first == second

    @property
    def usable(self) -> tuple[TrainingSequence, ...]:
        """The sequences that training can learn from: those with a loss, and of a pair both or
        none; none of a row that is too long where such rows are left out."""
        if self.is_left_out_as_long:
            return ()
        if not self.is_pair:
            return tuple(each for each in self.sequences if each.is_trained)
        trains = all(each.is_trained for each in self.sequences) and not self.is_equal_pair
        return self.sequences if trains else ()


class RowRenderer:
    """Turns rows of one kind into sequences, as training with these settings does.

    ``template`` is None for plain text. ``end_of_text`` is appended to that, which is not truncated
    where ``splits_text``.
    """

    def __init__(
        self,
        kind: RowKind,
        template: TemplateRenderer | None,
        encode: TextEncoder,
        settings: TokenSettings,
        *,
        default_system: str | None = None,
        end_of_text: str = "",
        splits_text: bool = True,
    ) -> None:
        self._kind = kind
        self._guard = guarding(encode.special) if settings.neutralizes else None
        self._template = template
        if template is not None and self._guard is not None:
            self._template = GuardingTemplate(template, self._guard)
        self._encode = encode
        self._settings = settings
        self._system = default_system
        self._end_of_text = end_of_text
        self._text_cutoff = None if splits_text else settings.cutoff
        self._control = any_of({text for text in encode.special if len(text) > 1})

    def render(self, row: JsonValue, read: ConversationRow) -> RenderedRow:
        """Render a checked row; a RowError names the turn at fault."""
        if self._template is None:
            return self._rendered_text(row["text"])
        conversations = [opened(each, self._system) for each in read.conversations]
        sequences = tuple(self._sequences(conversations, self._template))
        return RenderedRow(
            sequences,
            read.label,
            self._missing(conversations, sequences),
            self._control_tokens(_texts(read)),
            is_pair=self._kind is RowKind.PREFERENCE,
            leaves_out_long=self._settings.leaves_out_long,
            neutralizes=self._settings.neutralizes,
        )

    def _rendered_text(self, text: str) -> RenderedRow:
        control = self._control_tokens([text])
        if self._guard is not None:
            text = self._guard(text)
        tokens = text_tokens(text + self._end_of_text, self._encode, self._text_cutoff)
        sequence = TrainingSequence("text", (Exchange("", text),), tokens)
        return RenderedRow(
            (sequence,), control_tokens=control, neutralizes=self._settings.neutralizes
        )

    def _sequences(
        self, conversations: Sequence[Conversation], template: TemplateRenderer
    ) -> Iterator[TrainingSequence]:
        encode, settings = self._encode, self._settings
        if self._kind is RowKind.DEMONSTRATION:
            examples = list(render(conversations[0], template, encode))
            for exchanges in examples[-1:] if settings.takes_last_example else examples:
                tokens = conversation_tokens(exchanges, encode, settings)
                yield TrainingSequence("conversation", tuple(exchanges), tokens)
            return
        parts: tuple[SequencePart, ...] = ("answer",)
        answers: tuple[Exchange, ...]
        if self._kind is RowKind.PREFERENCE:
            parts = ("preferred", "rejected")
            first, second = conversations
            scored = settings.scores_answers
            answers = render_pair(first, second, template, encode, is_scored=scored)
        else:
            answers = (render_answer(conversations[0], template, encode),)
        tokens_of = answer_tokens(answers, encode, settings.cutoff)
        for part, answer, tokens in zip(parts, answers, tokens_of, strict=True):
            yield TrainingSequence(part, (answer,), tokens)

    def _missing(
        self, conversations: Sequence[Conversation], sequences: Sequence[TrainingSequence]
    ) -> tuple[Missing, ...]:
        if self._kind is RowKind.DEMONSTRATION:
            examples = [each.exchanges for each in sequences]
            whole = self._settings.train_on_prompt
            return tuple(missing_parts(conversations[0], examples, learns_whole=whole))
        found = [
            missing
            for conversation, each in zip(conversations, sequences, strict=True)
            for missing in missing_parts(conversation, [each.exchanges])
        ]
        return tuple(dict.fromkeys(found))

    def _control_tokens(self, texts: Iterator[str] | list[str]) -> tuple[str, ...]:
        found = (token for text in texts for token in self._control.findall(text))
        return tuple(dict.fromkeys(found))


def _texts(read: ConversationRow) -> Iterator[str]:
    for conversation in read.conversations:
        yield from texts_in([*conversation.tools])
        for message in conversation.messages:
            yield from texts_in(as_chat_message(message))
