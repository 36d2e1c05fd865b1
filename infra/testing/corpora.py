"""Real texts for the tests and benchmarks of retrieval, from the distribution.

The long descriptions of its packages, and WordNet's dictionary. Both are fetched without root and
without touching the system: apt works on folders here.
"""

import shutil
import tempfile
from pathlib import Path

from infra.debian import PackagesUnavailable
from infra.runtimes.installer.process import CommandFailed, run_logged
from infra.runtimes.installer.progress import Progress
from infra.testing.apt import private_apt
from infra.testing.compose import TOOLS

CORPORA = TOOLS / "corpora"
DESCRIPTIONS = CORPORA / "descriptions"
DICTIONARY = CORPORA / "wordnet"
STEP_SECONDS = 180.0

LISTS = {
    "Acquire::Languages": "en",
    "Acquire::GzipIndexes": "false",  # plain text, regardless of how the machine stores its lists
}


def has_corpora() -> bool:
    """Whether both corpora have been fetched."""
    return DESCRIPTIONS.is_dir() and DICTIONARY.is_dir()


def fetch_corpora(log: Path, lock: int, progress: Progress) -> None:
    """Fetch both; raises `PackagesUnavailable`."""
    if shutil.which("apt-get") is None:
        raise PackagesUnavailable("they are fetched on Debian and Ubuntu only")
    TOOLS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS, prefix="fetch-") as name:
        scratch, content = Path(name), Path(name) / "content"
        apt = private_apt(scratch, LISTS)
        try:
            for command in ([*apt, "update"], [*apt, "download", "wordnet-base"]):
                progress.show("fetching package descriptions and a dictionary")
                run_logged(command, log=log, lock=lock, limit=STEP_SECONDS, tick=lambda: None)
            (package,) = scratch.glob("wordnet-base_*.deb")
            unpack = ["dpkg-deb", "-x", str(package), str(scratch / "package")]
            run_logged(unpack, log=log, lock=lock, limit=STEP_SECONDS, tick=lambda: None)
            _keep(scratch, content)
        except (CommandFailed, OSError, ValueError) as error:
            raise PackagesUnavailable(f"apt could not fetch them ({error}); see {log}") from error
        shutil.rmtree(CORPORA, ignore_errors=True)
        content.rename(CORPORA)


def _keep(scratch: Path, content: Path) -> None:
    descriptions = content / DESCRIPTIONS.name
    descriptions.mkdir(parents=True)
    for listed in scratch.glob("lists/*_i18n_Translation-en"):
        shutil.copyfile(listed, descriptions / listed.name)
    shutil.copytree(scratch / "package" / "usr" / "share" / "wordnet", content / DICTIONARY.name)
    if not any(descriptions.iterdir()):
        raise FileNotFoundError("the lists came without descriptions")
