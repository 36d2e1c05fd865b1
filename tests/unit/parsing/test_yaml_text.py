"""YAML of people: numbers as readers take them, and no key that is given twice."""

import pytest
import yaml

from services.parsing.yaml_text import parse_yaml


def test_a_merged_mapping_may_be_overridden() -> None:
    text = "a: &a {x: 1, y: 1e-4}\nb: &b {<<: *a, x: 2}\nc: {<<: *b, y: 3}"

    assert parse_yaml(text)["c"] == {"x": 2, "y": 3}
    assert parse_yaml(text)["b"] == {"x": 2, "y": 1e-4}


@pytest.mark.parametrize("text", ["x: 1\nx: 2", "a: {x: 1, 'x': 2}", '{"x": 1, "x": 1}'])
def test_a_key_that_is_given_twice_is_named_with_its_line(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match=r"'x' is given twice\n.*line"):
        parse_yaml(text)
