"""What runs in the containers of `stand_in_images`: answers ``/readyz``, and has a heartbeat.

It needs the standard library only.
"""

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

BEAT_SECONDS = 1.0
READY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def serve(port: int) -> None:
    """Answer every request on ``port`` with 200."""
    with socket.create_server(("0.0.0.0", port)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(READY)


def main() -> None:
    """Serve the port of the command line, if there is one, until a signal ends the process."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if len(sys.argv) > 1:
        threading.Thread(target=serve, args=(int(sys.argv[1]),), daemon=True).start()
    # What the service owns must be writable for the user of its container.
    heartbeat = os.environ.get("TEMPER_HEARTBEAT_FILE")
    while True:
        if heartbeat is not None:
            Path(heartbeat).touch()
        time.sleep(BEAT_SECONDS)


if __name__ == "__main__":
    main()
