"""Run the retrieval service: ``python -m services.retrieval --host 127.0.0.1 --port 8082``."""

import sys

from services.core.web.serving import Address, bind, start_service
from services.retrieval.server.server import exit_on_signals, serve_alone
from services.retrieval.server.supervisor import serve_with_processes
from services.retrieval.settings import RetrievalSettings


def main() -> int:
    """Serve until a signal; return 2 when the settings are invalid."""
    return start_service("temper serve retrieval", 8082, RetrievalSettings, _serve)


def _serve(settings: RetrievalSettings, address: Address) -> None:
    # uvicorn re-raises the signal once it has shut down; encoders still have to be stopped then.
    exit_on_signals()
    if settings.retrieval_processes == 1:
        serve_alone(settings, bind(address))
    else:
        serve_with_processes(settings, address)


if __name__ == "__main__":
    sys.exit(main())
