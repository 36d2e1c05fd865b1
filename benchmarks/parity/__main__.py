"""Verdicts of Temper's graders and of published rules on generated forms of answers.

    python -m benchmarks.parity [--near-misses 10000]

The forms are made by the grammars beside this file, so that the right verdict of each is known.
For each grader the table shows how many verdicts of each rule are right, and for each rule that
differs the kinds of forms where it does, with the reason. Temper's wrong verdicts are listed one by
one, and the exit status is 1 if there are any.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from benchmarks.parity import corpus, ours
from benchmarks.parity.form import Form
from benchmarks.parity.rules import RULES

SHOWN_KINDS = 12


def main() -> int:
    """Print the tables; the exit status is 1 if a verdict of Temper's is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--near-misses", type=int, default=10_000, help="of each grader")
    given = parser.parse_args()
    wrong = _parity(list(corpus.forms())) + _near_misses(given.near_misses)
    for form in wrong[:50]:
        print(f"wrong: {form}")
    return 1 if wrong else 0


def _parity(forms: list[Form]) -> list[Form]:
    by_grader: dict[str, list[Form]] = defaultdict(list)
    for form in forms:
        by_grader[form.grader].append(form)
    wrong: list[Form] = []
    print(f"{len(forms)} forms of {len({form.kind for form in forms})} kinds\n")
    print(
        f"{'grader':<10}{'rule':<26}{'forms':>7}{'right':>7}{'too strict':>12}{'too lenient':>13}"
    )
    differences: list[str] = []
    for grader, own in by_grader.items():
        wrong += _row(grader, "Temper", own, ours.verdict)
        for name, rule in RULES[own[0].grader].items():
            missed = _row("", name, own, rule.verdict)
            differences += _difference(name, rule.reason, missed)
    print("\n" + "\n".join(differences) + "\n")
    return wrong


def _row(grader: str, rule: str, forms: list[Form], verdict: Callable[[Form], bool]) -> list[Form]:
    missed = [form for form in forms if verdict(form) != form.is_right]
    strict = sum(form.is_right for form in missed)
    right = len(forms) - len(missed)
    lenient = len(missed) - strict
    print(f"{grader:<10}{rule:<26}{len(forms):>7}{right:>7}{strict:>12}{lenient:>13}", flush=True)
    return missed


def _difference(rule: str, reason: str, missed: list[Form]) -> Iterable[str]:
    if not missed:
        return
    kinds = Counter(form.kind for form in missed)
    listed = ", ".join(f"{kind} ({number})" for kind, number in kinds.most_common(SHOWN_KINDS))
    more = f", and {len(kinds) - SHOWN_KINDS} more kinds" if len(kinds) > SHOWN_KINDS else ""
    yield f"{rule}: {reason}.\n    {listed}{more}"


def _near_misses(count: int) -> list[Form]:
    begun = time.process_time()
    wrong = [form for form in corpus.near_misses(count) if ours.verdict(form)]
    total = count * len(corpus.GRAMMARS)
    seconds = time.process_time() - begun
    print(f"near misses: {len(wrong)} of {total} called right ({total / seconds:,.0f} a second)")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
