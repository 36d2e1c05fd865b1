"""Health probe of a service's container: 0 while ``GET /readyz`` of a port answers 200, else 1.

``python -I -S service.py PORT``. A plain socket knows no proxy settings, and imports a tenth of
what an HTTP client does.
"""

import socket
import sys

ANSWER_SECONDS = 8.0
STATUS_BYTES = 512


def main(port: int) -> int:
    """Ask the service; print its answer's first line if it is not ready."""
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
        print(f"port {port} does not answer: {error}")
        return 1
    status, _, _ = answer.partition(b"\r\n")
    if status.split()[1:2] != [b"200"]:
        print(f"port {port} is not ready: {status.decode(errors='replace')}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
