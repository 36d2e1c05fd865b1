"""A sample of the generated forms of answers, and of wrong answers that look right."""

from benchmarks.parity import corpus, ours

SHARE = 12
"""One form in so many; ``python -m benchmarks.parity`` tries all."""


def test_generated_forms_have_their_verdicts() -> None:
    forms = list(corpus.forms())
    assert len(forms) >= 3000
    assert [form for form in forms[::SHARE] if ours.verdict(form) != form.is_right] == []


def test_no_near_miss_is_right() -> None:
    assert [form for form in corpus.near_misses(150, seed=1) if ours.verdict(form)] == []
