"""Build the documentation: ``python infra/docs/build.py`` writes ``.temper/docs/html``.

Installs the locked generator into a separate environment when the lock or the Python has
changed. Warnings are errors: a dead link or anchor fails the build.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LOCK = REPOSITORY / "infra" / "requirements" / "docs.txt"
SOURCE = REPOSITORY / "docs"
INSTALL_SECONDS = 900.0
BUILD_SECONDS = 300.0


def install(environment: Path) -> Path:
    """Make ``environment`` hold the locked packages; return its Python."""
    python, stamp = environment / "bin" / "python", environment / "docs.stamp"
    wanted = f"{platform.python_version()} {hashlib.sha256(LOCK.read_bytes()).hexdigest()}"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print("installing the generator of the documentation", flush=True)
    shutil.rmtree(environment, ignore_errors=True)
    create = [sys.executable, "-m", "venv", str(environment)]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (create, [*pip, "--no-deps", "--requirement", str(LOCK)]):
        subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
    stamp.write_text(wanted)
    return python


def build(python: Path, source: Path, target: Path) -> int:
    """Build the site of ``source`` into ``target``; return Sphinx's exit code."""
    sphinx = [str(python), "-m", "sphinx", "--quiet", "--builder", "html"]
    strict = ["--fail-on-warning", "--keep-going", "--fresh-env"]
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [*sphinx, *strict, str(source), str(target)]
    return subprocess.run(command, check=False, timeout=BUILD_SECONDS).returncode


def main() -> int:
    """Install and build; return 0, or another code with the reason printed."""
    home = Path(os.environ.get("TEMPER_HOME") or REPOSITORY / ".temper") / "docs"
    try:
        code = build(install(home / "environment"), SOURCE, home / "html")
    except (OSError, subprocess.SubprocessError) as error:
        print(f"documentation not built: {error}", file=sys.stderr)
        return 1
    if code == 0:
        print(f"documentation: {home / 'html' / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
