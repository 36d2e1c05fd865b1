"""The settings of every process, for docs/operations/settings.md."""

from pathlib import Path

from pydantic import BaseModel

from services.api.settings import ApiSettings
from services.campaigns.settings import CampaignSettings
from services.core.settings import ProcessSettings, Settings
from services.retrieval.settings import RetrievalSettings
from services.retrieval.worker import IndexerSettings
from services.sandbox.settings import SandboxSettings

READERS: tuple[tuple[type[BaseModel], str], ...] = (
    (ApiSettings, "api"),
    (IndexerSettings, "workers"),
    (CampaignSettings, "campaigns"),
    (SandboxSettings, "sandbox"),
    (RetrievalSettings, "retrieval"),
)


def table() -> str:
    """The settings of every process, as a Markdown table; each variable once."""
    lines = ["| variable | default | read by | meaning |", "|---|---|---|---|"]
    listed: set[str] = set()
    classes: tuple[type[BaseModel], ...] = (ProcessSettings, Settings, *dict(READERS))
    for settings in classes:
        for name, field in settings.model_fields.items():
            if name not in listed:
                listed.add(name)
                lines.append(_row(settings, name, _readers(name), field.description or ""))
    return "\n".join(lines)


def _readers(name: str) -> str:
    readers = [reader for settings, reader in READERS if name in settings.model_fields]
    return "all" if len(readers) == len(READERS) else ", ".join(readers)


def _row(settings: type[BaseModel], name: str, reader: str, meaning: str) -> str:
    default = settings.model_fields[name].get_default(call_default_factory=True, validated_data={})
    shown = "" if default in (None, "", [], {}) else f"`{str(default).lower()}`"
    if isinstance(default, str | Path) and shown:
        shown = f"`{default}`"
    return f"| `TEMPER_{name.upper()}` | {shown} | {reader} | {meaning} |"
