"""A client of the sandbox's scripts."""

import secrets
from typing import Any

from services.contracts.sandbox.scripts import SCRIPT_KEY_HEADER
from services.core.web.auth import hash_key
from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for

KEY = "temper-script-key"
SETTINGS = {"TEMPER_SANDBOX_SCRIPT_KEY_HASHES": hash_key(KEY)}


class ScriptClient:
    """Starts scripts in a sandbox that was started with `SETTINGS`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.http = sandbox.http
        self.headers = {SCRIPT_KEY_HEADER: KEY}

    def start(self, code: str, script_id: str | None = None, **fields: Any) -> str:
        """Start a script that must be accepted; return its id."""
        script_id = script_id or secrets.token_hex(16)
        answer = self.put(script_id, {"code": code, "seconds": 60, **fields})
        assert answer.status_code == 200, answer.text
        return script_id

    def refusal(self, **fields: Any) -> str:
        """Why a script is not accepted."""
        answer = self.put(secrets.token_hex(16), {"code": "pass", "seconds": 60, **fields})
        assert answer.status_code in (422, 503), answer.text
        return str(answer.json()["error"]["message"])

    def put(self, script_id: str, body: dict[str, Any]) -> Any:
        return self.http.put(f"/v1/scripts/{script_id}", json=body, headers=self.headers)

    def get(self, script_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/v1/scripts/{script_id}", headers=self.headers)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def is_known(self, script_id: str) -> bool:
        answer = self.http.get(f"/v1/scripts/{script_id}", headers=self.headers)
        assert answer.status_code in (200, 404), answer.text
        return bool(answer.status_code == 200)

    def printed(self, script_id: str, text: str) -> dict[str, Any]:
        """The script once it has printed something."""

        def seen() -> dict[str, Any] | None:
            script = self.get(script_id)
            assert script["state"] == "running" or text in script["stdout"], script
            return script if text in script["stdout"] else None

        return wait_for(seen, f"output with {text!r}")

    def ended(self, script_id: str) -> dict[str, Any]:
        """The script once it runs no more."""

        def state() -> dict[str, Any] | None:
            script = self.get(script_id)
            return None if script["state"] == "running" else script

        return wait_for(state, "the end of the script")

    def run(self, code: str, **fields: Any) -> dict[str, Any]:
        """Run a script to its end, and forget it."""
        script_id = self.start(code, **fields)
        script = self.ended(script_id)
        self.delete(script_id)
        return script

    def output(self, code: str, **fields: Any) -> str:
        """What a script printed that must succeed."""
        script = self.run(code, **fields)
        assert script["state"] == "ended", script
        assert script["result"]["return_code"] == 0, script
        return str(script["stdout"])

    def file(self, script_id: str, path: str) -> Any:
        return self.http.get(f"/v1/scripts/{script_id}/files/{path}", headers=self.headers)

    def delete(self, script_id: str) -> None:
        answer = self.http.delete(f"/v1/scripts/{script_id}", headers=self.headers)
        assert answer.status_code == 200, answer.text
