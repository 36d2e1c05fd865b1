"""What an audit measures of one sample."""

from collections import Counter
from dataclasses import dataclass

from services.contracts.rollouts.trajectories import Trajectory

PHRASE = 4
"""Words of a phrase."""
MAX_WORDS = 4000
"""Words of a response or a prompt that are looked at."""


@dataclass(frozen=True)
class Features:
    """One sample. ``prompt`` is the row of its prompt; ``response`` its text without whitespace at
    the ends; ``repeated`` and ``copied`` are the shares of its phrases that occurred in it before,
    and that occur in its prompt."""

    prompt: int
    reward: float
    components: dict[str, float]
    length: int
    response: str
    repeated: float
    copied: float


def features_of(sample: Trajectory) -> Features | None:
    """The features of a sample; None for one without a reward, or left out."""
    if sample.reward is None or sample.left_out is not None or sample.finish_reason.is_failure:
        return None
    response = "\n".join(turn.text for turn in sample.turns).strip()
    asked = " ".join(str(message.get("content") or "") for message in sample.messages)
    phrases, known = _phrases(response), set(_phrases(asked))
    total = len(phrases)
    return Features(
        prompt=sample.prompt_index,
        reward=sample.reward,
        components=dict(sample.reward_components),
        length=sample.sampled_tokens,
        response=response,
        repeated=1.0 - len(set(phrases)) / total if total else 0.0,
        copied=sum(phrase in known for phrase in phrases) / total if total else 0.0,
    )


def most_common_response(samples: list[Features]) -> str | None:
    """The response that was given to most different prompts; None where each had its own."""
    given = {(sample.prompt, sample.response) for sample in samples}
    counts = Counter(response for _, response in given)
    response, prompts = counts.most_common(1)[0] if counts else ("", 0)
    return response if prompts > 1 else None


def _phrases(text: str) -> list[tuple[str, ...]]:
    words = text.split(maxsplit=MAX_WORDS)[:MAX_WORDS]
    return [tuple(words[i : i + PHRASE]) for i in range(len(words) - PHRASE + 1)]
