"""Fenced blocks are found as models write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.metrics.fences import Block, fenced_blocks

FENCED = 'PROMPT = """\n```json\n{}\n```\n"""\nprint(PROMPT)'
"""A program with fences in a string."""


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("```python\na\n```", [("python", "a")]),
        ("```Python\na\n```", [("python", "a")]),
        ("```python name.py\na\n```", [("python", "a")]),
        ("```{python}\na\n```", [("python", "a")]),
        ("``` c++\r\na\r\nb\r\n```\r\n", [("c++", "a\nb")]),
        ("~~~py\na\n```\nb\n~~~", [("py", "a\n```\nb")]),
        ("````py\n```\na\n```\n````", [("py", "```\na\n```")]),
        ("```py\nx = '```'\ny = 1 ```\n```", [("py", "x = '```'\ny = 1 ```")]),
        ('```py\nx = """\n    ```\n"""\n```', [("py", 'x = """\n    ```\n"""')]),
        (f"```python\n{FENCED}\n```\nand\n```yaml\na\n```", [("python", FENCED), ("yaml", "a")]),
        ("```python\nx = (\n```\nand\n```\na\n```", [("python", "x = ("), ("", "a")]),
        ("1. So:\n   ```py\n   a\n     b\n   ```\n", [("py", "a\n  b")]),
        ("- ```py\n  a\n  ```\n", [("py", "a")]),
        ("> ```py\n> a\n>   b\n> ```\n", [("py", "a\n  b")]),
        ("```py\na\n```\ntext\n```\nb\n``` ", [("py", "a"), ("", "b")]),
        ("inline ```a``` and\n```b```\n", []),
        ("", []),
    ],
)
def test_blocks_are_found(text: str, blocks: list[tuple[str, str]]) -> None:
    assert fenced_blocks(text) == [Block(*block, closed=True) for block in blocks]


def test_a_block_that_is_cut_off_is_unclosed() -> None:
    assert fenced_blocks("```py\na\n```\n```py\nb\nc") == [
        Block("py", "a", closed=True),
        Block("py", "b\nc", closed=False),
    ]


@given(st.text(alphabet="`~>\n a-1."))
def test_any_text_has_blocks(text: str) -> None:
    assert all(block.content in text or "\n" in block.content for block in fenced_blocks(text))
