"""Whether searches can be answered right now."""

from services.retrieval.engine.encoders import check_same
from services.retrieval.engine.engine import Engine
from services.retrieval.engine.served import deadline_in

PATIENCE_SECONDS = 3.0


class IndexCheck:
    """A health check: the default index is open."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def check(self) -> None:
        """Raise why it is not."""
        await self._engine.catalogue.get(None)


class EncoderCheck:
    """A health check: the default index, if it has vectors, has its encoder."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def check(self) -> None:
        """Raise when queries cannot be encoded."""
        served = self._engine.catalogue.at_hand(None)
        if served is not None and served.encoder is not None:
            client = await self._engine.encoders.client(served.encoder)
            await check_same(client, served.encoder, deadline_in(PATIENCE_SECONDS))
