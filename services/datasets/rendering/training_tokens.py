"""The tokens that offline training makes of rendered texts, and which of them have a loss. Written
for LLaMA-Factory 0.9.5, whose processors (data/processor) do the same with the tokens of our
template: the texts of a row are encoded as one, and a row that is too long loses tokens from all
its parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from services.datasets.rendering.exchanges import Exchange
from services.datasets.rendering.text_encoding import TextEncoder, TextPart, Token


@dataclass(frozen=True)
class TokenSettings:
    """Settings that determine tokens and loss: tokens per sequence, whether rows with more are left
    out, whether special tokens in texts are ordinary text, two arguments of the library, and
    whether answers are scored, as by a reward model, rather than learned."""

    cutoff: int
    leaves_out_long: bool = False
    neutralizes: bool = False
    train_on_prompt: bool = False
    mask_history: bool = False
    scores_answers: bool = False

    @property
    def takes_last_example(self) -> bool:
        """Whether a conversation that a template makes several examples of is trained as its last
        one: both arguments are about the turns of a conversation, and the library applies them to
        each example by itself."""
        return self.train_on_prompt or self.mask_history


@dataclass(frozen=True)
class TrainingTokens:
    """A sequence as the trainer reads it; ``mask`` is True on tokens with a loss.

    ``cut`` counts the tokens that did not fit.
    """

    tokens: list[Token]
    mask: list[bool]
    cut: int = 0


def conversation_tokens(
    exchanges: Sequence[Exchange], encode: TextEncoder, settings: TokenSettings
) -> TrainingTokens:
    """A demonstration (data/processor/supervised.py); with ``mask_history`` only the last turn has
    a loss, and it is the last to be truncated."""
    parts = encoded_parts(exchanges, encode)
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    kept: list[TrainingTokens] = []
    room = settings.cutoff
    for turn, (source, target) in enumerate(pairs[::-1] if settings.mask_history else pairs):
        if room <= 0:
            break
        before, after = shares(len(source), len(target), room)
        has_loss = not (settings.mask_history and turn)
        kept.append(
            TrainingTokens(
                source.first(before) + target.first(after),
                [settings.train_on_prompt] * before + [has_loss] * after,
            )
        )
        room -= before + after
    ordered = kept[::-1] if settings.mask_history else kept
    tokens = [token for part in ordered for token in part.tokens]
    mask = [has_loss for part in ordered for has_loss in part.mask]
    total = sum(len(source) + len(target) for source, target in pairs)
    return TrainingTokens(tokens, mask, total - len(tokens))


def answer_tokens(
    answers: Sequence[Exchange], encode: TextEncoder, cutoff: int
) -> list[TrainingTokens]:
    """Answers to one prompt, truncated as the longest one requires
    (data/processor/pairwise.py and feedback.py)."""
    pairs = [encoded_parts([answer], encode) for answer in answers]
    source = pairs[0][0]
    before, after = shares(len(source), max(len(target) for _, target in pairs), cutoff)
    sequences = []
    for _, target in pairs:
        shown = target.first(after)
        tokens = source.first(before) + shown
        mask = [False] * before + [True] * len(shown)
        sequences.append(TrainingTokens(tokens, mask, len(source) + len(target) - len(tokens)))
    return sequences


def encoded_parts(exchanges: Sequence[Exchange], encode: TextEncoder) -> list[TextPart]:
    """The tokens of each context and response, encoded as one text."""
    texts = [text for each in exchanges for text in (each.context, each.response)]
    return encode("".join(texts)).parts([len(text) for text in texts])


def text_tokens(text: str, encode: TextEncoder, cutoff: int | None) -> TrainingTokens:
    """Plain text with its end token; with ``cutoff`` None it is split into sequences, not
    truncated."""
    (encoded,) = encode(text).parts([len(text)])
    tokens = encoded.first(len(encoded) if cutoff is None else min(len(encoded), cutoff))
    return TrainingTokens(tokens, [True] * len(tokens), len(encoded) - len(tokens))


def shares(source: int, target: int, room: int) -> tuple[int, int]:
    """How many tokens of a context and of its response fit: a short one is kept whole
    (data/processor/processor_utils.py, infer_seqlen)."""
    if target * 2 < room:
        most = room
    elif source * 2 < room:
        most = room - source
    else:
        most = int(room * (target / (source + target)))
    after = min(most, target)
    return min(max(room - after, 0), source), after
