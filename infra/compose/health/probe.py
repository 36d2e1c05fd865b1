"""Health probe of a container: exits with 0 if it is healthy, else prints why not and exits with 1.

    python -I -S probe.py [--stay FILE] service PORT
    python -I -S probe.py [--stay FILE] worker

A service is healthy while ``GET /readyz`` of its port answers 200. A worker touches the file
``TEMPER_HEARTBEAT_FILE`` whenever the database has its heartbeat, so one that hangs or has lost its
database is unhealthy although its process lives.

To start a process in a container costs the engine a hundred times what a look costs. So a probe
with ``--stay`` that finds the container healthy, as the probe before it did, stays and looks again
for some minutes. What is new is reported at once: the first success, and every problem. ``FILE``
exists while the last probe was a success. Nothing is imported that the interpreter has not loaded
already, but for sockets.
"""

import os
import sys
import time

ANSWER_SECONDS = 8.0
STATUS_BYTES = 512
FRESH_SECONDS = 30.0
"""Above the silence after which the gateway counts a worker as lost."""
STAY_SECONDS = 300.0
LOOK_SECONDS = 15.0


def problem_of_service(port: int) -> str | None:
    """Ask a service whether it is ready; a plain socket knows no proxy settings."""
    import socket  # noqa: PLC0415 - costs a worker's probe more than its look

    request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as connection:
            connection.sendall(request)
            while b"\r\n" not in answer and len(answer) < STATUS_BYTES:
                received = connection.recv(STATUS_BYTES)
                if not received:
                    break
                answer += received
    except OSError as error:
        return f"port {port} does not answer: {error}"
    status, _, _ = answer.partition(b"\r\n")
    if status.split()[1:2] != [b"200"]:
        return f"port {port} is not ready: {status.decode(errors='replace')}"
    return None


def problem_of_worker() -> str | None:
    """Check the age of a worker's heartbeat."""
    try:
        age = time.time() - os.stat(os.environ["TEMPER_HEARTBEAT_FILE"]).st_mtime  # noqa: PTH116 - pathlib costs more than the look
    except KeyError:
        return "TEMPER_HEARTBEAT_FILE is not set"
    except OSError as error:
        return f"no heartbeat yet: {error}"
    return None if abs(age) <= FRESH_SECONDS else f"the last heartbeat was {age:.0f} seconds ago"


def look(what: list[str]) -> str | None:
    """Return the problem of the container, if any."""
    return problem_of_worker() if what == ["worker"] else problem_of_service(int(what[1]))


def stay(mark: str, what: list[str]) -> str | None:
    """Return a problem as soon as there is one, and None at once where that is new."""
    end = time.monotonic() + (STAY_SECONDS if os.access(mark, os.F_OK) else 0.0)
    while (problem := look(what)) is None and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    try:
        if problem is None:
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o600))
        else:
            os.unlink(mark)  # noqa: PTH108 - as above
    except OSError:
        pass  # there is none, or every probe looks once
    return problem


def main(arguments: list[str]) -> int:
    """Probe the container once, or for as long as it is healthy."""
    stays = arguments[0] == "--stay"
    problem = stay(arguments[1], arguments[2:]) if stays else look(arguments)
    if problem is not None:
        print(problem)
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
