"""Run the gateway: ``python -m services.api --host 127.0.0.1 --port 8080``."""

import argparse
import os
import sys

import uvicorn
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from services.api.app import create_api
from services.api.settings import ApiSettings
from services.common.errors import ConfigurationError
from services.common.logging import configure_logging
from services.common.web.auth import check_exposure

SHUTDOWN_SECONDS = 5


def main() -> int:
    """Serve until a signal ends the process; 2 when the settings do not work."""
    parser = argparse.ArgumentParser(prog="temper serve api")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    arguments = parser.parse_args()
    try:
        settings = ApiSettings()
        check_exposure(arguments.host, settings.api_key_hashes, settings.allow_keyless)
    except ConfigurationError as error:
        return _refuse(error.message)
    except ValidationError as error:
        return _refuse("; ".join(_sentence(problem) for problem in error.errors()))
    os.umask(0o077)  # uploads and the database are the operator's alone
    configure_logging(settings.log_level, settings.log_json)
    uvicorn.run(
        create_api(settings),
        host=arguments.host,
        port=arguments.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return 0


def _refuse(reason: str) -> int:
    print(reason, file=sys.stderr)  # noqa: T201 - before there is a logger
    return 2


def _sentence(problem: ErrorDetails) -> str:
    variable = f"TEMPER_{problem['loc'][0]}".upper()
    return f"{variable}: {problem['msg'].removeprefix('Value error, ')}"


if __name__ == "__main__":
    sys.exit(main())
