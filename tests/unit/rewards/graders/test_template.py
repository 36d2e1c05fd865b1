"""Templates are rendered from the row and the sample, and can access nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.errors import InvalidRequest
from services.rewards.graders.template import check_template, render
from services.rewards.interface import RewardFailed, RewardFailureKind, Sample
from tests.support.rewards import trajectory

ITEM = {"answer": "4", "list": [{"deep": [1, 2]}], "number": 1.5, "nothing": None, "0": "zero"}


def sample(text: str = "out", item: dict[str, Any] | None = None) -> Sample:
    return Sample.of(trajectory("first", text), ITEM if item is None else item)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ item.answer }}!", "4!"),
        ("{{item.answer}}{{item.answer}}", "44"),
        ("{{ item.list[0].deep[1] }}", "2"),
        ("{{ item.list.0.deep }}", "[1, 2]"),
        ("{{ item.number }} {{ item.nothing }} {{ item.0 }}", "1.5 null zero"),
        ("{{ sample.output_text }}", "out"),
        ("{{ sample.response }}", "first\nout"),
        ("{{ sample.choices[0].message.content }}", "out"),
        ("{{ sample.prompt }}", "user: What is 2+2?"),
        ("{ item.answer } {{", "{ item.answer } {{"),
        ("", ""),
    ],
)
def test_placeholders_are_rendered(template: str, expected: str) -> None:
    check_template(template, "p")

    assert render(template, sample()) == expected


def test_fields_of_a_json_answer_are_rendered() -> None:
    text = render("{{ sample.output_json.a[0] }}", sample('{"a": ["é"]}'))

    assert text == "é"


def test_rendered_values_are_not_rendered_again() -> None:
    item = {"answer": "{{ item.secret }}", "secret": "x"}

    assert render("{{ item.answer }}", sample(item=item)) == "{{ item.secret }}"


@pytest.mark.parametrize(
    ("template", "failure_kind"),
    [
        ("{{ item.absent }}", RewardFailureKind.INVALID_VARIABLE),
        ("{{ item.answer.upper }}", RewardFailureKind.INVALID_VARIABLE),
        ("{{ item.list[7] }}", RewardFailureKind.INVALID_VARIABLE),
        ("{{ item.number[0] }}", RewardFailureKind.INVALID_VARIABLE),
        ("{{ sample.output_json.a }}", RewardFailureKind.SAMPLE_PARSE),
    ],
)
def test_missing_values_are_named(template: str, failure_kind: RewardFailureKind) -> None:
    with pytest.raises(RewardFailed) as caught:
        render(template, sample("no JSON"))

    assert caught.value.kind is failure_kind


@pytest.mark.parametrize(
    "place", ["{{ items.a }}", "{{ item.a() }}", "{{ item.a | upper }}", "{{}}", "{{ item[x] }}"]
)
def test_an_invalid_placeholder_is_rejected(place: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_template(f"text {place}", "grader.input")

    assert caught.value.param == "grader.input"


def test_rendered_text_is_bounded() -> None:
    item = {"big": "x" * 1_000_000}

    with pytest.raises(RewardFailed, match="longer than"):
        render("{{ item.big }}" * 7000, sample(item=item))


@given(st.text(alphabet="{} itemsaple.output_x[]0", max_size=60))
def test_a_checked_template_renders_or_names_a_missing_value(text: str) -> None:
    try:
        check_template(text, "p")
    except InvalidRequest:
        return
    failure_kind = None
    try:
        render(text, sample())
    except RewardFailed as error:
        failure_kind = error.kind
    assert failure_kind in {
        None,
        RewardFailureKind.INVALID_VARIABLE,
        RewardFailureKind.SAMPLE_PARSE,
    }
