"""An MCP server on standard input and output that misbehaves on request.

Its tools: ``look`` tells its folder, its environment and its arguments, ``count`` its calls,
``start`` starts a process in a session of its own, ``ask`` asks the client something first, and
the others break in their ways.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CALLS = ("look", "count", "start", "ask", "die", "hang", "babble")


def answer(call: dict[str, Any], count: int) -> str:
    """The text of a tool's answer."""
    match call["name"]:
        case "look":
            files = sorted(path.name for path in Path().iterdir())
            return json.dumps({"files": files, "env": dict(os.environ), "argv": sys.argv[1:]})
        case "start":
            command = [sys.executable, "-c", "import time; time.sleep(1000)"]
            return str(subprocess.Popen(command, start_new_session=True).pid)
        case "ask":
            say({"jsonrpc": "2.0", "id": "p", "method": "ping"})
            say({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
            return str(json.loads(sys.stdin.readline()).get("result"))
        case "die":
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(3)
        case "hang":
            sys.stdin.read()
        case "babble":
            print("not JSON", flush=True)
    return str(count)


def say(message: dict[str, Any]) -> None:
    """Send a message."""
    print(json.dumps(message), flush=True)


def main() -> None:
    """Serve until the input ends."""
    count = 0
    for line in sys.stdin:
        asked = json.loads(line)
        result: dict[str, Any] = {}
        if asked["method"] == "tools/list":
            result = {"tools": [{"name": name} for name in CALLS]}
        if asked["method"] == "tools/call":
            count += 1
            text = answer(asked["params"], count)
            result = {"content": [{"type": "text", "text": text}]}
        if "id" in asked:
            say({"jsonrpc": "2.0", "id": asked["id"], "result": result})


if __name__ == "__main__":
    main()
