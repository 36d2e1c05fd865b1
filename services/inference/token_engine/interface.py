"""Who samples: a server that continues token sequences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from services.contracts.errors import TemperError


class EngineFailed(TemperError):
    """The engine gave no tokens, after all attempts that have a point."""

    code = "engine_failed"


@dataclass(frozen=True)
class TurnSampling:
    """How one turn is sampled; ``seed`` null lets the engine draw one.

    A turn ends with one of ``stop_token_ids`` (kept, as its last token), after a text of ``stop``
    or after ``max_tokens``. Turns of one ``session`` (a trajectory) go to the same server, which
    has their beginning in its prefix cache.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    session: str | None = None


@dataclass(frozen=True)
class SampledTokens:
    """What the engine sampled, the token that ended the turn included.

    ``log_probs`` and ``policy_versions`` have one entry a token. Log-probabilities are those of
    the distribution that was sampled from: after temperature, top_p, top_k and min_p.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    policy_versions: tuple[int, ...]
    finish_reason: Literal["stop", "length", "abort"]


class TokenEngine(Protocol):
    """Continues token sequences; safe to ask from many tasks at once."""

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample what follows ``token_ids``; raises `EngineFailed`."""
        ...
