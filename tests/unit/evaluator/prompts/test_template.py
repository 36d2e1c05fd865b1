import json
from pathlib import Path

import jinja2
import pytest

from services.contracts.batches.prompt_batches import Prompting
from services.contracts.errors import InvalidRequest
from services.evaluator.prompts.template import PromptTemplate, RenderFailed

PUBLISHED = "对话: {{ history }}\n货源: {{ cargo_info }}\n问: {{ query }}\n"


def template(folder: Path, content: str, **options: object) -> PromptTemplate:
    path = folder / "prompt.yaml"
    path.write_text(content, encoding="utf-8")
    return PromptTemplate(Prompting.model_validate({"template": path, **options}))


def yaml_of(text: str) -> str:
    return json.dumps({"system_prompt": text}, ensure_ascii=False)


def test_the_published_template_renders_byte_for_byte(tmp_path: Path) -> None:
    record = {"history": [{"用户": "多少钱"}, 'a"b'], "当前query": "x"}
    expected = jinja2.Template(PUBLISHED).render(
        history=json.dumps(record["history"], ensure_ascii=False),
        cargo_info=json.dumps(record.get("货源信息"), ensure_ascii=False),
        query=json.dumps(record["当前query"], ensure_ascii=False),
    )

    messages = template(tmp_path, yaml_of(PUBLISHED)).render(record)

    assert messages == [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": expected},
    ]


def test_fields_are_variables_as_they_stand(tmp_path: Path) -> None:
    prompt = template(tmp_path, yaml_of("{{ query }} {{ items[0].价 }} {{ empty }}|"))

    messages = prompt.render({"query": "<b>", "items": [{"价": 9.6}], "empty": None})

    assert messages[1]["content"] == "<b> 9.6 |"


def test_a_dot_leads_to_fields_and_not_to_methods(tmp_path: Path) -> None:
    prompt = template(
        tmp_path, yaml_of("{{ order.items }} {% for k in order %}{{ k }}{% endfor %}")
    )

    assert prompt.render({"order": {"items": "two"}})[1]["content"] == "two items"
    with pytest.raises(RenderFailed, match="no attribute 'items'"):
        prompt.render({"order": {"other": 1}})
    with pytest.raises(RenderFailed, match="title is a function"):
        template(tmp_path, yaml_of("{{ name.title }}")).render({"name": "a"})
    assert (
        template(
            tmp_path, yaml_of("{{ n.strip() }}{% for i in x %}{{ loop.index }}{% endfor %}")
        ).render({"n": " a ", "x": "bc"})[1]["content"]
        == "a12"
    )


def test_a_field_that_a_record_lacks_is_an_error_of_that_record(tmp_path: Path) -> None:
    prompt = template(
        tmp_path, yaml_of("{{ a }}{{ b | default('-') }}{% if c is defined %}c{% endif %}")
    )

    assert prompt.render({"a": 1})[1]["content"] == "1-"
    with pytest.raises(RenderFailed, match="'a' is undefined"):
        prompt.render({"b": 1})


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("{{ querry }}", {}, "no record has the field 'querry'; the fields are history, query"),
        ("{{ a }}", {"variables": {"a": "histroy"}}, "variable a: no record has .*'histroy'"),
        ("{{ query }} {{ note | default('') }} {{ x if x is defined }}", {}, None),
        (
            "{% set q = query %}{% for h in history %}{{ h }}{{ q }}{{ loop.index }}{% endfor %}",
            {},
            None,
        ),
    ],
)
def test_a_field_that_no_record_has_is_refused(
    tmp_path: Path, text: str, options: dict[str, object], message: str | None
) -> None:
    prompt = template(tmp_path, yaml_of(text), **options)

    if message is None:
        prompt.check_fields({"history", "query"})
    else:
        with pytest.raises(InvalidRequest, match=message):
            prompt.check_fields({"history", "query"})


def test_the_published_variables_need_one_of_their_fields(tmp_path: Path) -> None:
    template(tmp_path, yaml_of(PUBLISHED)).check_fields({"当前query"})
    with pytest.raises(InvalidRequest, match="'cargo_info'"):
        template(tmp_path, yaml_of(PUBLISHED)).check_fields({"history", "query"})


def test_variables_of_the_command_line_win_over_those_of_the_file(tmp_path: Path) -> None:
    content = "system_prompt: '{{ a }} {{ b }} {{ c }}'\nvars: {a: one, b: one}\n"
    prompt = template(tmp_path, content, variables={"b": "two"})

    messages = prompt.render({"one": "é", "two": [1, None], "c": "plain"})

    assert messages[1]["content"] == '"é" [1, null] plain'


def test_the_template_may_be_the_system_message(tmp_path: Path) -> None:
    prompt = template(tmp_path, yaml_of("Be {{ how }}"), template_as_system=True)

    assert prompt.render({"how": "kind"}) == [{"role": "system", "content": "Be kind"}]


def test_a_file_of_messages_renders_each(tmp_path: Path) -> None:
    content = "messages: [{role: system, content: 'S {{ a }}'}, {role: user, content: '{{ a }}'}]"

    assert template(tmp_path, content).render({"a": 1}) == [
        {"role": "system", "content": "S 1"},
        {"role": "user", "content": "1"},
    ]


def test_a_record_that_cannot_be_rendered_fails_alone(tmp_path: Path) -> None:
    prompt = template(tmp_path, yaml_of("{{ 1 / number }}"))

    with pytest.raises(RenderFailed, match="ZeroDivisionError"):
        prompt.render({"number": 0})
    assert prompt.render({"number": 2})[1]["content"] == "0.5"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("prompt: x", "neither system_prompt nor messages"),
        ("system_prompt: '{% if %}'", "line 1"),
        ("system_prompt: [1]", "system_prompt"),
        ("{", "not YAML"),
    ],
)
def test_a_bad_template_file_is_named_with_its_fault(
    tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        template(tmp_path, content)
    assert "prompt.yaml" in caught.value.message
