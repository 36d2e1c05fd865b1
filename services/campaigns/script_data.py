"""A campaign's data sets as a folder that the sandbox may show to its scripts."""

import shutil
from pathlib import Path

from services.campaigns.run import CampaignRun
from services.contracts.errors import NotFound
from services.core.jobs.store import get_job

LISTED_AS = "campaigns"
"""The name of the worker's folder in the sandbox's list."""


def shared_folder(run: CampaignRun, root: Path) -> str:
    """Copy the campaign's data sets to a folder of its own below ``root``, unless they are there;
    return what the sandbox calls the folder.

    Scripts run as other users: these may read the copies, but list no folder above them. Folders of
    campaigns that have ended are removed.
    """
    folder = root / run.id
    if not folder.exists():
        _make_passable(root)
        _remove_ended(run, root)
        folder.mkdir()
    for each in run.request.datasets:
        target = folder / f"{each.name}.jsonl"
        if not target.exists():
            partial = root / f".{run.id}.{each.name}.partial"
            shutil.copyfile(run.artifacts.file(each.file), partial)
            partial.chmod(0o644)
            partial.replace(target)
    folder.chmod(0o755)
    return f"{LISTED_AS}/{run.id}"


def _make_passable(folder: Path) -> None:
    for each in reversed((folder, *folder.parents)):
        if not each.exists():
            each.mkdir(exist_ok=True)
            each.chmod(0o711)


def _remove_ended(run: CampaignRun, root: Path) -> None:
    for folder in [each for each in root.iterdir() if each.is_dir()]:
        try:
            with run.database.read() as session:
                ended = get_job(session, folder.name).status.is_final
        except NotFound:
            ended = True
        if ended:
            shutil.rmtree(folder, ignore_errors=True)
