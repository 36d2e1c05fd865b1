"""The interface of engines that continue token sequences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from services.contracts.errors import TemperError
from services.inference.clients.retries import ServiceFailed

if TYPE_CHECKING:  # workers import this module, and have no arrays
    import numpy as np
    from numpy.typing import NDArray

FinishReason = Literal["stop", "length"]


class EngineFailed(TemperError):
    """The engine returned no tokens, after all retries."""

    code = "engine_failed"

    @property
    def status(self) -> int | None:
        """The HTTP status of its last answer; None without one."""
        cause = self.__cause__
        return cause.status if isinstance(cause, ServiceFailed) else None


@dataclass(frozen=True)
class TurnSampling:
    """How one turn is sampled; with ``seed`` None the engine draws one.

    A turn ends with one of ``stop_token_ids`` (kept, as its last token), after a text of ``stop``
    or after ``max_tokens``. Turns of one ``session`` (a trajectory) are routed to the same server,
    for its prefix cache (sticky routing).
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
    """One sampled turn, including the token that ended it.

    ``log_probs`` (nats) and ``policy_versions`` have one entry per token. Log-probabilities refer
    to the distribution sampled from: after temperature, top_p, top_k and min_p.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    policy_versions: tuple[int, ...]
    finish_reason: FinishReason


class TokenEngine(Protocol):
    """Continues token sequences; safe for concurrent use."""

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`."""
        ...


@dataclass(frozen=True)
class PromptLogProbs:
    """Natural log-probabilities of the n - 1 tokens after the first, at temperature 1.

    ``tokens`` has shape (n - 1,); ``top_ids`` and ``top_log_probs``, shape (n - 1, k), are the
    most probable tokens at each position, best first. Row i refers to token i + 1.
    """

    tokens: "NDArray[np.float32]"
    top_ids: "NDArray[np.int32]"
    top_log_probs: "NDArray[np.float32]"
