"""All scripts of the service: how many, and for how long they are kept."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.contracts.errors import NotFound, Unavailable
from services.contracts.sandbox_scripts import Script, ScriptHost, StartScript
from services.sandbox.isolation.tier import Tier
from services.sandbox.scripts.folders import ReadOnlyFolders
from services.sandbox.scripts.order import check_order, destination, most_seconds
from services.sandbox.scripts.rooms import Rooms
from services.sandbox.scripts.script import RunningScript
from services.sandbox.settings import SandboxSettings
from services.sandbox.wire import in_thread_if_large

logger = logging.getLogger(__name__)

_KEPT = 3
"""Scripts that have ended may wait to be asked for: so many for each that may run."""
_FULL_SECONDS = 30.0


class Scripts:
    """Scripts by id.

    A script is ended and forgotten when nobody has asked for it for long: its client is gone for
    good, or has lost interest. Nothing outlives this process.
    """

    def __init__(self, settings: SandboxSettings, rooms: Rooms, tier: Tier) -> None:
        self._settings = settings
        self._rooms = rooms
        self._tier = tier
        self._folders = ReadOnlyFolders(settings.sandbox_script_folders)
        self._scripts: dict[str, RunningScript] = {}
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._ends = set[asyncio.Task[None]]()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End all scripts at the end."""
        try:
            yield
        finally:
            for alarm in self._alarms.values():
                alarm.cancel()
            scripts = list(self._scripts.values())
            await asyncio.gather(*(script.end() for script in scripts), *self._ends)

    def host(self) -> ScriptHost:
        """What a script can be given here."""
        return ScriptHost(
            folders=self._folders.names,
            network=destination(self._settings, self._tier),
            max_seconds=most_seconds(self._settings),
            max_output_mb=self._settings.sandbox_script_output_mb,
            unattended_seconds=self._settings.sandbox_script_unattended_seconds,
        )

    async def start(self, script_id: str, request: StartScript) -> Script:
        """Start a script, unless there is one with this id, and show it.

        Raises `Unprocessable`, and `Unavailable` while as many scripts run as may.
        """
        if script_id not in self._scripts:
            size = sum(len(content or "") for content in request.files.values())
            order = await in_thread_if_large(
                lambda: check_order(request, self._settings, self._folders, self._tier), size
            )
            if script_id not in self._scripts:  # it may have been started in the meantime
                number = self._free_number()
                self._scripts[script_id] = RunningScript(script_id, number, order, self._rooms)
        return self.get(script_id).view()

    def get(self, script_id: str) -> RunningScript:
        """The script with this id, which is kept for a while again; raises `NotFound`."""
        script = self._scripts.get(script_id)
        if script is None:
            raise NotFound(
                "no such script: it was never started or was deleted, the sandbox has been "
                "started again since, or nobody asked for the script for too long",
                param="script_id",
                code="script_not_found",
            )
        if script_id in self._alarms:
            self._alarms[script_id].cancel()
        self._alarms[script_id] = asyncio.get_running_loop().call_later(
            self._settings.sandbox_script_unattended_seconds, self._expire, script_id
        )
        return script

    async def delete(self, script_id: str) -> None:
        """End a script and forget it; raises `NotFound`."""
        script = self.get(script_id)
        await script.end()
        if self._scripts.get(script_id) is script:
            del self._scripts[script_id]
            self._alarms.pop(script_id).cancel()

    def _expire(self, script_id: str) -> None:
        logger.warning("script %s was not asked for any more and is ended", script_id)
        task = asyncio.get_running_loop().create_task(self.delete(script_id))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    def _free_number(self) -> int:
        """A number that no script has which may still run; raises `Unavailable`."""
        most = self._settings.sandbox_scripts
        taken = {script.number for script in self._scripts.values() if script.is_running}
        free = min(set(range(most)) - taken, default=None)
        if free is None or len(self._scripts) >= _KEPT * most:
            raise Unavailable(
                f"{len(taken)} scripts run and {len(self._scripts) - len(taken)} results wait; "
                f"{most} may run (TEMPER_SANDBOX_SCRIPTS)",
                retry_after=_FULL_SECONDS,
                code="too_many_scripts",
            )
        return free
