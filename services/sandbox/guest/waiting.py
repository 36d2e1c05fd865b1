"""How long a program was ready to run, but had no processor."""

from itertools import islice

from services.sandbox.guest.processes import lines, living

_NANOSECONDS = 1e9


def waited_seconds(processes: int, user: int | None) -> float:
    """The time that the only computing process in the open /proc ``processes`` waited for a
    processor, by its main thread; of ``user``, if given.

    0 if several compute, which then wait for each other, or where the kernel keeps no such count
    (CONFIG_SCHED_INFO).
    """
    found = (process for process in living(processes, user) if process.computing)
    computing = list(islice(found, 2))  # a fork bomb has hundreds
    if len(computing) != 1:
        return 0.0
    content = lines(processes, f"{computing[0].place}/schedstat")
    fields = content[0].split() if content else []
    return int(fields[1]) / _NANOSECONDS if len(fields) > 1 else 0.0
