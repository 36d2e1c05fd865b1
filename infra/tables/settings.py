"""The settings of every process and of the command line, for docs/operations/settings.md."""

from pathlib import Path

from pydantic import BaseModel

from services.api.settings import ApiSettings
from services.campaigns.settings import CampaignSettings
from services.core.settings import ProcessSettings, Settings
from services.retrieval.settings import RetrievalSettings
from services.retrieval.worker import IndexerSettings
from services.sandbox.settings import SandboxSettings
from temper.settings import ClientSettings

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


def client_table() -> str:
    """The settings that only the command line reads, as a Markdown table."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    of_processes = {name for settings, _ in READERS for name in settings.model_fields}
    for name, field in ClientSettings.model_fields.items():
        if name not in of_processes:
            shown = _default(ClientSettings, name)
            lines.append(f"| `TEMPER_{name.upper()}` | {shown} | {field.description or ''} |")
    return "\n".join(lines)


def _readers(name: str) -> str:
    readers = [reader for settings, reader in READERS if name in settings.model_fields]
    return "all" if len(readers) == len(READERS) else ", ".join(readers)


def _row(settings: type[BaseModel], name: str, reader: str, meaning: str) -> str:
    return f"| `TEMPER_{name.upper()}` | {_default(settings, name)} | {reader} | {meaning} |"


def _default(settings: type[BaseModel], name: str) -> str:
    default = settings.model_fields[name].get_default(call_default_factory=True, validated_data={})
    if default in (None, "", [], {}):
        return ""
    return f"`{default}`" if isinstance(default, str | Path) else f"`{str(default).lower()}`"
