"""Builds the pool and its dependencies from the settings, for the lifetime of the process."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from services.core.process.runtimes import find_runtime
from services.sandbox.isolation.cgroups import find_cgroups
from services.sandbox.isolation.surroundings import default_gateways, is_container
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.tiers import Isolation, choose_tier
from services.sandbox.languages.build import Languages
from services.sandbox.languages.catalog import gpu_devices, visible_paths
from services.sandbox.languages.preparation import prepare_in_background
from services.sandbox.network.destinations import AllowList
from services.sandbox.network.proxy import Network
from services.sandbox.pool.assembly import create_pool
from services.sandbox.pool.pool import Capacity, Pool
from services.sandbox.scripts.rooms import Rooms
from services.sandbox.settings import SandboxSettings

logger = logging.getLogger(__name__)

RUNTIME = "sandbox"
CGROUP_PREFIX = "temper-sandbox"


@dataclass(frozen=True)
class SandboxEngine:
    """A running pool, its isolation, the languages that use it, and the rooms of scripts."""

    pool: Pool
    isolation: Isolation
    languages: Languages
    rooms: Rooms


@asynccontextmanager
async def running_engine(settings: SandboxSettings) -> AsyncIterator[SandboxEngine]:
    """Start the pool; on exit close it and kill everything it runs.

    Raises `ConfigurationError` if programs cannot be isolated as configured, `RuntimeMissing`, and
    `SandboxFailure`.
    """
    python = find_runtime(settings.runtimes_folder, RUNTIME).python
    cgroups = find_cgroups(CGROUP_PREFIX)
    try:
        reachable = settings.sandbox_network_allow
        isolation = choose_tier(
            settings.sandbox_minimum_tier, settings.sandbox_tier, cgroups, reachable
        )
        _warn_of_routes()
        prepared = _make_prepared_folder(settings.prepared_folder, isolation.tier)
        shown = [*visible_paths(), *([str(prepared)] if prepared is not None else [])]
        network = Network(AllowList(reachable)) if reachable else None
        gpus = gpu_devices() if settings.sandbox_gpu else ()
        rooms = Rooms(
            python,
            isolation,
            cgroups,
            settings.sandbox_processes,
            settings.sandbox_cores,
            settings.sandbox_scripts,
        )
        pool = create_pool(
            python,
            isolation,
            cgroups,
            _capacity(settings),
            shown,
            network,
            gpus,
            first_number=rooms.slot_numbers,
        )
        cache_bytes = settings.sandbox_compile_cache_mb << 20
        languages = Languages(pool, cache_bytes=cache_bytes, prepared=prepared)
        try:
            await pool.start()
            async with _preparing(prepared):
                yield SandboxEngine(pool, isolation, languages, rooms)
        finally:
            await pool.close()
    finally:
        cgroups.close()


def _warn_of_routes() -> None:
    """A sandbox's container should lead nowhere; nobody expects that of a whole machine."""
    if is_container() and (gateways := default_gateways()):
        logger.warning(
            "this container has a default route, via %s: give the sandbox internal networks only. "
            "Docker Engine before 26 gives these one as well, to an address that nobody has",
            ", ".join(gateways),
        )


def _make_prepared_folder(folder: Path, tier: Tier) -> Path | None:
    """The folder of precompiled compiler inputs; None if programs could not read it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    is_open = all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents))
    return folder if tier is Tier.FULL or is_open else None


@asynccontextmanager
async def _preparing(folder: Path | None) -> AsyncIterator[None]:
    if folder is None:
        yield
        return
    preparation = asyncio.create_task(prepare_in_background(folder))
    try:
        yield
    finally:
        preparation.cancel()
        await asyncio.gather(preparation, return_exceptions=True)


def _capacity(settings: SandboxSettings) -> Capacity:
    return Capacity(
        programs=settings.sandbox_concurrency,
        # A /run_jupyter request holds a program's slot and needs a notebook as well.
        sessions=settings.sandbox_max_sessions + settings.sandbox_concurrency,
        processes=settings.sandbox_processes,
        disk_bytes=settings.sandbox_disk_mb << 20,
        cores=settings.sandbox_cores,
        idle_seconds=settings.sandbox_idle_seconds,
        busy=settings.busy_programs,
    )
