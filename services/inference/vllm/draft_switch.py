"""Switches the drafts of a running engine off and on again.

vLLM drafts for as long as an engine lives. Its worker takes a class of ours as a base
(``--worker-extension-cls``), whose method `VllmControl.draft` calls: without drafts the scheduler
verifies nothing, and the engine decodes token by token. Written for vLLM 0.32, whose drafters of
the methods ngram and suffix have a method ``propose`` that returns one draft for each sequence.
"""

from collections.abc import Callable
from typing import Any

Propose = Callable[..., list[list[int]]]


class DraftSwitch:
    """A base of vLLM's worker."""

    model_runner: Any
    _propose: Propose | None = None

    def switch_drafts(self, on: bool) -> None:
        """Draft from now on, or not."""
        drafter = self.model_runner.drafter
        if self._propose is None:
            self._propose = drafter.propose
        drafter.propose = self._propose if on else no_drafts


def no_drafts(*given: Any, **_: Any) -> list[list[int]]:
    """An empty draft for each sequence; the first list that vLLM gives has what they sampled."""
    sampled = next(each for each in given if isinstance(each, list))
    return [[] for _ in sampled]
