"""All scripts of the service: concurrency limit, retention, expiry."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.contracts.errors import NotFound, Unavailable
from services.contracts.sandbox.scripts import Script, ScriptHost, StartScript
from services.sandbox.isolation.tier import Tier
from services.sandbox.scripts.folders import ReadOnlyFolders
from services.sandbox.scripts.plan import destination, max_seconds, plan_script
from services.sandbox.scripts.rooms import Rooms
from services.sandbox.scripts.script import RunningScript
from services.sandbox.settings import SandboxSettings
from services.sandbox.wire import in_thread_if_large

logger = logging.getLogger(__name__)

_RETAINED_PER_SLOT = 3
"""Scripts retained, running or ended, for each that may run."""
_RETRY_SECONDS = 30.0


class Scripts:
    """Scripts by id.

    A script that no client polls for long is killed and dropped. Nothing outlives this process.
    """

    def __init__(self, settings: SandboxSettings, rooms: Rooms, tier: Tier) -> None:
        self._settings = settings
        self._rooms = rooms
        self._tier = tier
        self._folders = ReadOnlyFolders(settings.sandbox_script_folders)
        self._scripts: dict[str, RunningScript] = {}
        self._expiry_timers: dict[str, asyncio.TimerHandle] = {}
        self._expirations = set[asyncio.Task[None]]()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Kill all scripts on exit."""
        try:
            yield
        finally:
            for timer in self._expiry_timers.values():
                timer.cancel()
            scripts = list(self._scripts.values())
            await asyncio.gather(*(script.end() for script in scripts), *self._expirations)

    def host(self) -> ScriptHost:
        """Folders, destination and limits available to scripts."""
        return ScriptHost(
            folders=self._folders.names,
            network=destination(self._settings, self._tier),
            max_seconds=max_seconds(self._settings),
            max_output_mb=self._settings.sandbox_script_output_mb,
            unattended_seconds=self._settings.sandbox_script_unattended_seconds,
        )

    async def start(self, script_id: str, request: StartScript) -> Script:
        """Start a script unless one with this id exists, and return its state.

        Raises `Unprocessable`, and `Unavailable` at the limit of scripts.
        """
        if script_id not in self._scripts:
            size = sum(len(content or "") for content in request.files.values())
            plan = await in_thread_if_large(
                lambda: plan_script(request, self._settings, self._folders, self._tier), size
            )
            if script_id not in self._scripts:  # another request may have started it meanwhile
                number = self._free_number()
                self._scripts[script_id] = RunningScript(script_id, number, plan, self._rooms)
        return self.get(script_id).view()

    def get(self, script_id: str) -> RunningScript:
        """The script with this id, whose expiry is postponed; raises `NotFound`."""
        script = self._scripts.get(script_id)
        if script is None:
            raise NotFound(
                "no such script: it was never started, was deleted, was not polled for too long, "
                "or the sandbox has restarted since",
                param="script_id",
                code="script_not_found",
            )
        if script_id in self._expiry_timers:
            self._expiry_timers[script_id].cancel()
        self._expiry_timers[script_id] = asyncio.get_running_loop().call_later(
            self._settings.sandbox_script_unattended_seconds, self._expire, script_id
        )
        return script

    async def delete(self, script_id: str) -> None:
        """Kill a script and drop its result; raises `NotFound`."""
        script = self.get(script_id)
        await script.end()
        if self._scripts.get(script_id) is script:
            del self._scripts[script_id]
            self._expiry_timers.pop(script_id).cancel()

    def _expire(self, script_id: str) -> None:
        logger.warning("script %s is no longer polled; deleting it", script_id)
        task = asyncio.get_running_loop().create_task(self.delete(script_id))
        self._expirations.add(task)
        task.add_done_callback(self._expirations.discard)

    def _free_number(self) -> int:
        """The lowest number not used by a running script; raises `Unavailable`."""
        limit = self._settings.sandbox_scripts
        taken = {script.number for script in self._scripts.values() if script.is_running}
        free = min(set(range(limit)) - taken, default=None)
        if free is None or len(self._scripts) >= _RETAINED_PER_SLOT * limit:
            raise Unavailable(
                f"{len(taken)} scripts are running and {len(self._scripts) - len(taken)} results "
                f"are retained; {limit} may run (TEMPER_SANDBOX_SCRIPTS)",
                retry_after=_RETRY_SECONDS,
                code="too_many_scripts",
            )
        return free
