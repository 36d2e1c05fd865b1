"""All forms, and wrong answers that look right, by grader; always the same for a seed."""

import random
from collections.abc import Iterator
from itertools import islice

from benchmarks.parity import choices, formulas, numbers, programs, texts
from benchmarks.parity.form import Form

GRAMMARS = (numbers, choices, formulas, texts, programs)


def forms(seed: int = 0) -> Iterator[Form]:
    """The forms of all grammars."""
    for grammar in GRAMMARS:
        yield from grammar.forms(random.Random(seed))


def near_misses(count: int, seed: int = 0) -> Iterator[Form]:
    """Wrong answers, ``count`` of each grammar."""
    for grammar in GRAMMARS:
        source = random.Random(seed)
        yield from islice(grammar.near_misses(source), count)
