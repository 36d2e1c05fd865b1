"""Health probe of a worker's container: 0 while its heartbeat is fresh, else 1.

A worker touches the file ``TEMPER_HEARTBEAT_FILE`` whenever the database has its heartbeat, so one
that hangs or has lost its database is unhealthy although its process lives. The probe is a new
process every few seconds: ``python -I -S`` runs it, and it imports nothing that an interpreter has
not loaded already.
"""

import os
import sys
import time

FRESH_SECONDS = 30.0
"""Above the silence after which the gateway counts a worker as lost."""


def main() -> int:
    """Check the age of the heartbeat; print the problem if it is not fresh."""
    try:
        age = time.time() - os.stat(os.environ["TEMPER_HEARTBEAT_FILE"]).st_mtime  # noqa: PTH116 - pathlib costs more than the probe
    except KeyError:
        print("TEMPER_HEARTBEAT_FILE is not set")
        return 1
    except OSError as error:
        print(f"no heartbeat yet: {error}")
        return 1
    if abs(age) > FRESH_SECONDS:
        print(f"the last heartbeat was {age:.0f} seconds ago")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
