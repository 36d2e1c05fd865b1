"""Run the gateway: ``python -m services.api --host 127.0.0.1 --port 8080``."""

import gc
import sys

from services.api.app import create_api, open_to_pages
from services.api.settings import ApiSettings
from services.core.settings import make_private
from services.core.web.serving import Address, bind, create_server, start_service


def main() -> int:
    """Serve until a signal stops the process; returns 2 if the settings are invalid."""
    return start_service("temper serve api", 8080, ApiSettings, _serve)


def _serve(settings: ApiSettings, address: Address) -> None:
    make_private(settings.home)
    api = open_to_pages(create_api(settings), settings.cors_origins)
    # Modules and routes live as long as the process: full collections need not traverse them.
    gc.collect()
    gc.freeze()
    create_server(api).run(bind(address))


if __name__ == "__main__":
    sys.exit(main())
