"""Ending the services of a stack, whoever started them."""

from concurrent.futures import ThreadPoolExecutor

from temper.stack.processes import KILL_SECONDS, end_group
from temper.stack.services import WORKERS
from temper.stack.state import StackFile, StackState

SHUTDOWN_MARGIN = 10.0
"""What a worker gets to end beyond the grace that it gives the processes of its jobs."""


def longest_shutdown(grace_seconds: float) -> float:
    """Return the seconds within which a stack has ended, come what may."""
    return 2 * (grace_seconds + SHUTDOWN_MARGIN + KILL_SECONDS)


def end_services(state: StackState, grace_seconds: float) -> list[str]:
    """End what lives of a stack, workers first: they end the processes of their jobs.

    Return the names of the services that had to be ended.
    """
    alive = [service for service in state.services if service.process.is_alive]
    workers = [service.process for service in alive if service.name in WORKERS]
    others = [service.process for service in alive if service.name not in WORKERS]
    for group in (workers, others):
        if group:
            with ThreadPoolExecutor(len(group)) as threads:
                list(threads.map(lambda process: end_group(process, grace_seconds), group))
    return [service.name.value for service in alive]


def end_leftovers(file: StackFile, grace_seconds: float) -> list[str]:
    """End the services of a stack whose supervisor was killed; the caller holds the lock."""
    state = file.read()
    if state is None:
        return []
    ended = end_services(state, grace_seconds)
    file.remove()
    return ended
