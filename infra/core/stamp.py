"""Contents of the core environment, and the steps that are missing."""

import hashlib
import json
import platform
import tomllib
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

STAMP = "temper.json"
"""Written into the environment as the last step of every change, and removed before the first."""


class Step(StrEnum):
    """A part of an installation; the order is that of the members."""

    CREATE = "create"
    CORE = "core"
    DEV = "dev"
    PROJECT = "project"


@dataclass(frozen=True)
class Stamp:
    """Fingerprints of what is in an environment; ``dev`` is None where it has no tests' tools.

    ``folder`` is part of it because an environment cannot be moved.
    """

    python: str
    folder: str
    core: str
    project: str
    dev: str | None


def wanted_stamp(repository: Path, environment: Path) -> Stamp:
    """The stamp of a complete environment of this checkout for the running Python."""
    requirements = repository / "infra" / "requirements"
    return Stamp(
        python=platform.python_version(),
        folder=str(environment),
        core=_fingerprint((requirements / "core.txt").read_bytes()),
        project=_fingerprint(_packaging(repository / "pyproject.toml")),
        dev=_fingerprint((requirements / "dev.txt").read_bytes()),
    )


def read_stamp(environment: Path) -> Stamp | None:
    """The stamp of ``environment``; None if missing, incomplete or of another release."""
    try:
        values = json.loads((environment / STAMP).read_bytes())
        stamp = Stamp(**values)
    except (OSError, ValueError, TypeError):
        return None
    return stamp if (environment / "bin" / "python").exists() else None


def write_stamp(environment: Path, stamp: Stamp) -> None:
    """Write ``stamp`` atomically."""
    partial = environment / f"{STAMP}.partial"
    partial.write_text(json.dumps(asdict(stamp), indent=1) + "\n", encoding="utf-8")
    partial.replace(environment / STAMP)


def missing_steps(found: Stamp | None, wanted: Stamp, *, dev: bool) -> list[Step]:
    """The steps from the stamp ``found`` to the one ``wanted``; none if they are equal.

    Packages of another lock are never installed over the old ones, which would leave some
    behind: the environment is recreated, with the tests' tools if it had them.
    """
    stale = (
        found is None
        or (found.python, found.folder, found.core) != (wanted.python, wanted.folder, wanted.core)
        or (dev and found.dev not in {None, wanted.dev})
    )
    if found is None or stale:
        with_dev = dev or (found is not None and found.dev is not None)
        return [step for step in Step if step is not Step.DEV or with_dev]
    steps = []
    if dev and found.dev is None:
        steps.append(Step.DEV)
    if found.project != wanted.project:
        steps.append(Step.PROJECT)
    return steps


def _packaging(pyproject: Path) -> bytes:
    """The part of pyproject.toml that an installation depends on, normalized."""
    table = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    setuptools = table.get("tool", {}).get("setuptools")
    part = [table.get("build-system"), table.get("project"), setuptools]
    return json.dumps(part, sort_keys=True, default=str).encode()


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
