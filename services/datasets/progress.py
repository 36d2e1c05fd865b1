"""Progress of reading several files, as one figure."""

from collections.abc import Callable

from services.core.process.reporter import Reporter

_STEPS = 100


class ReadingProgress:
    """Reports how much of all files was read, in hundredths; every file weighs the same."""

    def __init__(self, reporter: Reporter, files: int) -> None:
        self._reporter = reporter
        self._files = files
        self._step = -1

    def of(self, index: int) -> Callable[[float], None]:
        """What is to be told the share, from 0 to 1, of a file that was read."""
        return lambda share: self._tell((index + share) / self._files)

    def _tell(self, share: float) -> None:
        step = int(share * _STEPS)
        if step > self._step:
            self._step = step
            self._reporter.progress(step, _STEPS)
