"""An engine that notices when it is gone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from services.contracts.errors import JobFailed
from services.evaluator.evaluation.failures import Failure, FailureWatch
from services.inference.clients.model_server import InferenceError
from services.inference.token_engine.interface import (
    EngineFailed,
    SampledTokens,
    TokenEngine,
    TurnSampling,
)

UNABLE = "engine_without_token_ids"
"""The code of a server that can never be used: no other turn would end otherwise."""


class WatchedEngine:
    """Asks an engine, and knows when to go on asking is pointless.

    ``context_length`` is what it holds of prompt and response together, if that is known;
    ``stop_token_ids`` end a turn beside those of the chat template.
    """

    def __init__(
        self,
        engine: TokenEngine,
        server_ends: Callable[[], Awaitable[None]],
        *,
        context_length: int | None,
        stop_token_ids: Sequence[int] = (),
    ) -> None:
        self.context_length = context_length
        self.stop_token_ids = tuple(stop_token_ids)
        self._engine = engine
        self._server_ends = server_ends
        self._failures = FailureWatch(answered=0)
        self._pointless: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample what follows ``token_ids``; raises `EngineFailed`."""
        try:
            sampled = await self._engine.generate(token_ids, sampling)
        except EngineFailed as error:
            self._note(error)
            raise
        self._failures.answered()
        return sampled

    async def watch(self) -> None:
        """Raise ``JobFailed`` or `VllmFailed` once no turn will be sampled any more."""
        ends = asyncio.ensure_future(self._server_ends())
        try:
            await asyncio.wait([ends, self._pointless], return_when=asyncio.FIRST_COMPLETED)
            for ended in (ends, self._pointless):
                if ended.done():
                    ended.result()
        finally:
            ends.cancel()

    def _note(self, error: EngineFailed) -> None:
        cause = error.__cause__
        status = cause.status if isinstance(cause, InferenceError) else None
        try:
            if error.code == UNABLE:
                raise JobFailed(error.message, code=UNABLE)
            self._failures.failed(Failure(status, error.message))
        except JobFailed as end:
            if not self._pointless.done():
                self._pointless.set_exception(end)
