"""apt in private folders: downloads without root, and installs nothing."""

from collections.abc import Mapping
from pathlib import Path


def private_apt(scratch: Path, options: Mapping[str, object]) -> list[str]:
    """The apt-get command with the machine's settings, but lists and cache in ``scratch``.

    ``options`` are further settings. Downloads go to ``scratch``, too.
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
    # Downloads go to the current folder.
    return ["env", f"--chdir={scratch}", "apt-get", *settings]
