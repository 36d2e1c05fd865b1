"""Health check of a worker's container: 0 with a fresh heartbeat in the database, else 1.

A worker whose process lives but that has lost its database, or hangs, is unhealthy as well.
"""

import socket
import sys

from sqlalchemy.exc import SQLAlchemyError

from services.core.db.engine import Database
from services.core.jobs.workers import live_workers
from services.core.worker.settings import WorkerSettings


def main() -> int:
    """Look for a fresh heartbeat of this host; print the problem if there is none."""
    settings = WorkerSettings()
    host = settings.host_name or socket.gethostname()
    database = Database(settings.database)
    try:
        with database.read() as session:
            hosts = {worker.host for worker in live_workers(session)}
    except SQLAlchemyError as error:
        print(f"the database does not answer: {type(error).__name__}")
        return 1
    finally:
        database.close()
    if host not in hosts:
        print(f"no worker of {host} has been heard of lately")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
