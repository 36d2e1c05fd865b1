"""Writes the table of settings into README.md; `--check` only says whether it is current."""

import re
import sys
from pathlib import Path

from pydantic_settings import BaseSettings

from services.api.settings import ApiSettings
from services.common.settings import Settings
from services.common.worker.settings import WorkerSettings

README = Path(__file__).resolve().parents[1] / "README.md"
MARK = "<!-- settings -->"
_TABLE = re.compile(f"{MARK}.*?{MARK}", re.DOTALL)


def table() -> str:
    """The settings of every process, as a Markdown table."""
    lines = ["| variable | default | read by | meaning |", "|---|---|---|---|"]
    shared = set(Settings.model_fields)
    for settings, reader in ((Settings, "all"), (ApiSettings, "api"), (WorkerSettings, "workers")):
        for name, field in settings.model_fields.items():
            if settings is not Settings and name in shared:
                continue
            lines.append(_row(settings, name, reader, field.description or ""))
    return "\n".join(lines)


def _row(settings: type[BaseSettings], name: str, reader: str, meaning: str) -> str:
    default = settings.model_fields[name].get_default(call_default_factory=True, validated_data={})
    shown = "" if default in (None, "", [], {}) else f"`{str(default).lower()}`"
    if isinstance(default, str | Path) and shown:
        shown = f"`{default}`"
    return f"| `TEMPER_{name.upper()}` | {shown} | {reader} | {meaning} |"


def main() -> int:
    """Update the README, or with --check return 1 when it is out of date."""
    text = README.read_text()
    updated = _TABLE.sub(lambda _: f"{MARK}\n{table()}\n{MARK}", text)
    if "--check" in sys.argv[1:]:
        return int(updated != text)
    README.write_text(updated)
    return 0


if __name__ == "__main__":
    sys.exit(main())
