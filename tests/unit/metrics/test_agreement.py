"""Agreement of two raters."""

import pytest

from services.metrics.agreement import agreement

RATED = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15


def test_kappa_and_its_standard_error_are_those_computed_by_hand() -> None:
    found = agreement(RATED)

    assert (found.items, found.observed, found.expected) == (50, 0.7, 0.5)
    assert found.kappa == pytest.approx(0.4)
    assert found.stderr == pytest.approx((0.2016 / 12.5) ** 0.5)
    assert found.ci95 == pytest.approx((0.1511, 0.6489), abs=1e-4)


def test_kappa_does_not_depend_on_which_rater_comes_first() -> None:
    one, other = agreement(RATED), agreement((second, first) for first, second in RATED)

    assert other.kappa == pytest.approx(one.kappa)
    assert other.stderr == pytest.approx(one.stderr)


def test_equal_labels_of_several_kinds_agree_perfectly() -> None:
    found = agreement([("a", "a"), ("b", "b"), ("c", "c")])

    assert found.kappa == pytest.approx(1.0)
    assert found.stderr == pytest.approx(0.0)


def test_opposite_labels_are_worse_than_chance() -> None:
    found = agreement([("a", "b"), ("b", "a")] * 5)

    assert found.kappa == pytest.approx(-1.0)
    assert found.ci95 is not None
    assert found.ci95[0] == pytest.approx(-1.0)


def test_kappa_is_undefined_where_every_label_is_the_same() -> None:
    found = agreement([("a", "a")] * 3)

    assert (found.observed, found.kappa, found.ci95) == (1.0, None, None)


def test_no_items_are_an_error() -> None:
    with pytest.raises(ValueError, match="no items"):
        agreement([])
