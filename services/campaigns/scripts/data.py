"""A campaign's datasets as a folder that the sandbox may show to its scripts."""

import asyncio
import errno
import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import Waiting
from services.contracts.errors import NotFound
from services.jobs.store import get_job

LISTED_AS = "campaigns"
"""The name of the worker's folder in the sandbox's list of folders."""
_PART_BYTES = 8 << 20
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


async def shared_folder(run: CampaignRun, root: Path) -> str:
    """Copy the campaign's datasets to its own folder in ``root`` unless they are there; return the
    sandbox's name of the folder.

    Scripts run as other users, which may read the copies but cannot list any folder above them.
    Folders of ended campaigns are removed. Raises `Waiting` while there is no space.
    """
    folder = root / run.id
    if not folder.exists():
        _make_passable(root)
        _remove_ended(run, root)
        folder.mkdir(exist_ok=True)
    for each in run.request.datasets:
        target = folder / f"{each.name}.jsonl"
        if not target.exists():
            # The lease is kept, and the step can be interrupted, between two parts.
            with closing(_copied(run.artifacts.file(each.file), target, run.id)) as parts:
                for _ in parts:
                    await asyncio.sleep(0)
    folder.chmod(0o755)
    return f"{LISTED_AS}/{run.id}"


def _copied(source: Path, target: Path, campaign: str) -> Generator[int, None, None]:
    """Copy atomically, yielding the bytes of each part. Another loop may copy concurrently."""
    partial = target.parents[1] / f".{campaign}.{secrets.token_hex(4)}.partial"
    try:
        with open(source, "rb") as reader, open(partial, "xb") as writer:
            while part := os.sendfile(writer.fileno(), reader.fileno(), None, _PART_BYTES):
                yield part
        partial.chmod(0o644)
        partial.replace(target)
    except OSError as error:
        if error.errno in _FULL:
            raise Waiting("waiting for space in TEMPER_CAMPAIGN_SCRIPT_DATA") from error
        raise
    finally:
        partial.unlink(missing_ok=True)


def _make_passable(folder: Path) -> None:
    for each in reversed((folder, *folder.parents)):
        if not each.exists():
            each.mkdir(exist_ok=True)
            each.chmod(0o711)


def _remove_ended(run: CampaignRun, root: Path) -> None:
    """Remove folders of ended campaigns, including partial copies of killed workers."""
    for each in list(root.iterdir()):
        campaign = each.name.removeprefix(".").partition(".")[0]
        try:
            with run.database.read() as session:
                ended = get_job(session, campaign).status.is_final
        except NotFound:
            ended = True
        if not ended:
            continue
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
