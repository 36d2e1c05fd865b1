"""apt with folders of its own: what it fetches is never installed, and needs no root."""

from collections.abc import Mapping
from pathlib import Path


def private_apt(scratch: Path, options: Mapping[str, object]) -> list[str]:
    """apt-get with the machine's settings, but its lists and cache in ``scratch``.

    ``options`` are further settings. What it downloads lands in ``scratch``, too.
    """
    for folder in ("lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True)
    chosen = {
        "Dir::State": scratch,
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": scratch / "cache",
        "Acquire::Retries": 3,
        **options,
    }
    settings = [word for key, value in chosen.items() for word in ("-o", f"{key}={value}")]
    # A download lands in the current folder.
    return ["env", f"--chdir={scratch}", "apt-get", *settings]
