"""Chat templates that have the settings of a training in them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rollouts.chat.template import ChatTemplate, check_variables
from services.trainer.offline.template_settings import with_default_system, with_variables
from tests.support.chat_templates.families import FAMILIES

QUESTION = [{"role": "user", "content": "1+1?"}]
ANSWERED = [*QUESTION, {"role": "assistant", "content": "2"}]
SHOWN = "{{ value | tojson }}"
VALUES = (
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)


def rendered(source: str, variables: dict[str, Any] | None = None) -> str:
    return ChatTemplate(source, {}, variables).render(QUESTION)


@given(VALUES)
def test_a_template_has_the_values_of_its_variables(value: Any) -> None:
    assert rendered(with_variables(SHOWN, {"value": value})) == rendered(SHOWN, {"value": value})


def test_a_variable_that_is_given_comes_before_the_stored_one() -> None:
    source = with_variables(SHOWN, {"value": 1})

    assert rendered(source, {"value": 2}) == "2"
    check_variables(["value"], ChatTemplate(source, {}))


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("ends", [False, True])
def test_a_published_template_renders_its_stored_variables(thinks: bool, ends: bool) -> None:
    own = FAMILIES["qwen3"].template()
    variables = {"enable_thinking": thinks}
    stored = with_variables(own, variables)
    if ends:  # as the template of a reward model does
        own, stored = (
            f"{{% set rendered %}}{each}{{% endset %}}{{{{ rendered.rstrip() }}}}"
            for each in (own, stored)
        )

    for messages, opening in ((QUESTION, True), (ANSWERED, False)):
        expected = ChatTemplate(own, {}, variables).render(messages, opening=opening)
        assert ChatTemplate(stored, {}).render(messages, opening=opening) == expected


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_default_system_message_is_written_as_it_is(system: str) -> None:
    source = with_default_system("{{ messages[0].content }}", system)

    assert rendered(source) == system
