"""Replies to questions about deliveries, and the rater that prefers some of them.

A reply has three parts: an opening, a statement and a closing. The demonstrations draw each part at
random, so a model fine-tuned on them writes good and bad replies alike. The rater prefers a formal
opening and closing, and a statement that names what was asked about; a reward model must learn this
from pairs. Replies in pairs may lack parts: a reward model that has only seen complete ones scores
fragments at random, and PPO exploits the highest-scoring ones.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

from examples.demo_common.setup import write_rows
from temper.types import MultiGrader, StringCheckGrader, WeightedReward

DEMONSTRATIONS = 4000
PAIRS = 1500
HELD_OUT = 150
MISSING = 1 / 6

_PEOPLE = (
    *("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gil", "Ida", "Jo", "Kim"),
    *map(" ".join, product(("Dr.", "Prof."), ("Adler", "Lee", "Marsh", "Okoye", "Ruiz"))),
)
_TOPICS = ("book", "chair", "desk", "lamp", "phone", "table", "ticket", "watch")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ASKS = ("{} asks about the {} for {}.", "{} wants the {} by {}.")
_FORMAL = ("Good day.", "Regards.")
_CASUAL = ("Hi!", "Cheers!")
_EVASION = "No idea."

RATING = "rating"
PARTS = ("opening", "statement", "closing")


@dataclass(frozen=True)
class Question:
    """A question, and the reply that the rater prefers."""

    text: str
    opening: str
    statement: str
    closing: str

    @property
    def wanted(self) -> tuple[str, ...]:
        """The parts of the best reply."""
        return self.opening, self.statement, self.closing


def questions(seed: int) -> Iterator[Question]:
    """Yield all questions, in an order that depends on the seed."""
    opening, closing = _FORMAL
    every = [
        Question(ask.format(name, topic, day), opening, f"The {topic} is late.", closing)
        for name, topic, day, ask in product(_PEOPLE, _TOPICS, _DAYS, _ASKS)
    ]
    _random(seed, "questions").shuffle(every)
    yield from every


def rating() -> WeightedReward:
    """The rater: the share of parts that match the best reply, at zero reward weight."""
    checks = {
        part: StringCheckGrader(
            type="string_check",
            name=part,
            operation="like",
            input="{{ sample.output_text }}",
            reference=f"{{{{ item.{part} }}}}",
        )
        for part in PARTS
    }
    formula = f"({' + '.join(PARTS)}) / {len(PARTS)}"
    grader = MultiGrader(type="multi", name=RATING, graders=dict(checks), calculate_output=formula)
    return WeightedReward(name=RATING, weight=0.0, reward=grader)


@dataclass(frozen=True)
class RlhfData:
    """Demonstrations, rated pairs, and prompts for training and for evaluation."""

    demonstrations: Path
    pairs: Path
    prompts: Path
    held_out: Path


def write_data(folder: Path, seed: int, *, gamed: bool = False) -> RlhfData:
    """Write the data of a seed, deterministically. No held-out question is in another file.

    With ``gamed`` no reply of a pair lacks a part: the reward model scores fragments at random.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = RlhfData(*(folder / f"{name}.jsonl" for name in RlhfData.__annotations__))
    source = questions(seed)
    held_out = list(islice(source, HELD_OUT))
    known = list(source)
    choice = _random(seed, "replies")
    write_rows(
        data.demonstrations,
        (_demonstration(choice.choice(known), choice) for _ in range(DEMONSTRATIONS)),
    )
    missing = 0.0 if gamed else MISSING
    write_rows(data.pairs, (_pair(choice.choice(known), choice, missing) for _ in range(PAIRS)))
    write_rows(data.prompts, (_prompt(question) for question in known))
    write_rows(data.held_out, (_prompt(question) for question in held_out))
    return data


def _random(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{purpose} {seed}")  # noqa: S311 - reproducible data, no secret


def _asked(question: Question) -> list[dict[str, str]]:
    return [{"role": "user", "content": question.text}]


def _prompt(question: Question) -> dict[str, Any]:
    wanted = dict(zip(PARTS, question.wanted, strict=True))
    return {"messages": _asked(question), **wanted}


def _reply(question: Question, choice: random.Random) -> tuple[str, ...]:
    """Draw the parts of a reply; each is the preferred one with probability 1/2."""
    openings, closings = zip(_FORMAL, _CASUAL, strict=True)
    return (
        choice.choice(openings),
        choice.choice((question.statement, _EVASION)),
        choice.choice(closings),
    )


def _incomplete(parts: tuple[str, ...], choice: random.Random, missing: float) -> tuple[str, ...]:
    """Drop each part with probability ``missing``."""
    return tuple("" if choice.random() < missing else part for part in parts)


def _answer(parts: tuple[str, ...]) -> dict[str, str]:
    return {"role": "assistant", "content": " ".join(filter(None, parts)) or "Oh."}


def _demonstration(question: Question, choice: random.Random) -> dict[str, Any]:
    return {"messages": [*_asked(question), _answer(_reply(question, choice))]}


def _pair(question: Question, choice: random.Random, missing: float) -> dict[str, Any]:
    """Draw two replies with different ratings, the better one preferred."""
    while True:
        replies = [_incomplete(_reply(question, choice), choice, missing) for _ in range(2)]
        worse, better = sorted(replies, key=lambda parts: _rated(question, parts))
        if _rated(question, worse) < _rated(question, better):
            return {
                "input": {"messages": _asked(question)},
                "preferred_output": [_answer(better)],
                "non_preferred_output": [_answer(worse)],
            }


def _rated(question: Question, parts: tuple[str, ...]) -> int:
    return sum(part == wanted for part, wanted in zip(parts, question.wanted, strict=True))
