"""Which server a request goes to."""

from collections import OrderedDict
from collections.abc import Sequence

from services.trainer.rl.engine.policy_server import PolicyServer

REMEMBERED = 65_536
"""Sessions whose server is known; the one that was asked longest ago is forgotten first."""


class Sessions:
    """Spreads requests, and keeps a session on the server that has its beginning in its cache."""

    def __init__(self) -> None:
        self._servers: OrderedDict[str, PolicyServer] = OrderedDict()

    def server_of(self, session: str | None, servers: Sequence[PolicyServer]) -> PolicyServer:
        """The server of the session; the one with the fewest requests when it has none yet."""
        known = self._servers.get(session) if session is not None else None
        server = known or min(servers, key=lambda each: each.under_way)
        if session is not None:
            self._servers[session] = server
            self._servers.move_to_end(session)
            if len(self._servers) > REMEMBERED:
                self._servers.popitem(last=False)
        return server
