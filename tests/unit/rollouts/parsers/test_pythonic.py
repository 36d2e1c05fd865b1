"""Calls written as a Python list: parsed, never run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rollouts.parsers import ParsedCall, parser_of

_PARSER = parser_of("pythonic")


@pytest.mark.parametrize(
    "text",
    [
        "[f(a=1, b='x')]",
        " \n[f(a=1, b='x')]<|eot|>",
        "<|python_start|>[f(a=1, b='x')]<|python_end|><|eot|>",
        "<think>[g()]</think>\n[f(a=1, b='x')]<|im_end|>",
        "[\n  f(\n    a=1,\n    b='x',\n  ),\n]",
        "[f(a=1, b='x')]\n\nThe list is [1, 2].",
        "[f(a=1, b='x')] isn't [g(a=1)].",
        '[f(a=1, b="""x""")] is """ ]',
        "[f(a=1, b='x')][0]",
        "[f(a=1,  # not this ]\n b='x')] and ]",
    ],
)
def test_a_list_of_calls_is_parsed(text: str) -> None:
    parsed = _PARSER.parse(text)

    assert parsed.calls == (ParsedCall("f", {"a": 1, "b": "x"}),)
    assert parsed.malformed == ()


@given(st.text(max_size=30), st.text("a]['\"\n", max_size=20))
def test_the_list_ends_where_its_brackets_close(value: str, after: str) -> None:
    parsed = _PARSER.parse(f"[f(a=[{value!r}])]. {after}")

    assert parsed.calls == (ParsedCall("f", {"a": [value]}),)
    assert parsed.malformed == ()


def test_further_lists_are_calls_or_malformed() -> None:
    parsed = _PARSER.parse("[f(a=1)]\n[g(1)]\n[h()]")

    assert parsed.calls == (ParsedCall("f", {"a": 1}), ParsedCall("h", {}))
    assert [found.text for found in parsed.malformed] == ["[g(1)]"]


def test_dotted_names_and_json_constants_are_accepted() -> None:
    (call,) = _PARSER.parse(
        "[a.b.c(i=-3, f=1.5, t=True, u=true, n=None, m=null, l=[1, (2, 3)], d={'k': {'x': []}})]"
    ).calls

    assert call == ParsedCall(
        "a.b.c",
        {
            "i": -3,
            "f": 1.5,
            "t": True,
            "u": True,
            "n": None,
            "m": None,
            "l": [1, [2, 3]],
            "d": {"k": {"x": []}},
        },
    )


@pytest.mark.parametrize("answer", ["[1, 2, 3]", "f(a=1)", "The list [f(a=1)].", "[Note] f(x)", ""])
def test_a_plain_answer_is_not_a_call(answer: str) -> None:
    parsed = _PARSER.parse(answer)

    assert (parsed.calls, parsed.malformed) == ((), ())


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("1", "without a name"),
        ("**x", "**"),
        ("a=1, a=2", "twice"),
        ("a=__import__('os')", "not a literal"),
        ("a=1+1", "not a literal"),
        ("a=x", "not a literal"),
        ("a=f'{1}'", "not a literal"),
        ("a=[b for b in 'c']", "not a literal"),
        ("a=-True", "not a literal"),
        ("a=b'x'", "not a literal"),
        ("a=1j", "not a literal"),
        ("a=...", "not a literal"),
        ("a={1: 2}", "key that is not a string"),
        ("a={**{}}", "key that is not a string"),
        ("a=1e999", "too large"),
        ("a=-1e999", "too large"),
        ("a='\\ud800'", "surrogate"),
        ("a=" + "[" * 60 + "]" * 60, "nested"),
    ],
)
def test_a_call_with_non_literal_arguments_is_recorded_and_valid_calls_are_kept(
    argument: str, reason: str
) -> None:
    parsed = _PARSER.parse(f"[f({argument}), g(ok=1)]")

    assert parsed.calls == (ParsedCall("g", {"ok": 1}),)
    assert [reason in found.reason for found in parsed.malformed] == [True]


@pytest.mark.parametrize("element", ["7", "f(a=1)()", "(lambda: 1)()", "f[0](a=1)", "'x'.f(a=1)"])
def test_an_element_that_is_not_a_named_call_is_malformed(element: str) -> None:
    parsed = _PARSER.parse(f"[g(ok=1), {element}]")

    assert [call.name for call in parsed.calls] == ["g"]
    assert len(parsed.malformed) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[f(a=1",
        "[f(a=1) or]",
        "[f(" + "(" * 5_000 + "]",
        "[f(a=" + "-" * 50_000 + "1)]",
        "[f(a=" + "1+" * 50_000 + "1)]",
        "[f(a='\0')]",
        "[f(a=" + "9" * 5_000 + ")]",
        "[f(a=1)" + " " * 300_000 + "]",
    ],
)
def test_unparsable_python_is_malformed(text: str) -> None:
    parsed = _PARSER.parse(text)

    assert parsed.calls == ()
    assert len(parsed.malformed) == 1


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "code"]), _VALUES))
def test_any_literals_round_trip(arguments: dict[str, object]) -> None:
    written = ", ".join(f"{key}={value!r}" for key, value in arguments.items())

    assert _PARSER.parse(f"[f({written})]").calls == (ParsedCall("f", arguments),)
