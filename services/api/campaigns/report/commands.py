"""Shell commands that reproduce a request to this gateway."""

import json
import shlex
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Curl:
    """Builds curl commands for the gateway at ``url``, which read the key from TEMPER_API_KEY."""

    url: str
    needs_key: bool

    def post(self, path: str, body: Any) -> str:
        """A command that posts a JSON body."""
        parts = ["curl", "-X", "POST", f"{self.url.rstrip('/')}{path}"]
        parts += ["-H", "Content-Type: application/json"]
        command = shlex.join(parts)
        if self.needs_key:
            command += ' -H "Authorization: Bearer $TEMPER_API_KEY"'
        content = json.dumps(body, ensure_ascii=False)
        return f"{command} -d {shlex.quote(content)}"
