"""Scripts and settings in the answers of an LLM arrive whole."""

import pytest

from services.campaigns.fences import blocks_in, last_blocks

FENCED_STRING = 'PROMPT = """\n```json\n{}\n```\n"""\nprint(PROMPT)\n'


@pytest.mark.parametrize(
    ("answer", "python"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("```Python\r\nx = 1\r\n```\r\n", "x = 1\n"),
        ("```python process_data.py\nx = 1\n```", "x = 1\n"),
        ("```python\nx = '```'\n```", "x = '```'\n"),
        (
            "```python\nx = re.findall(r'```(.*?)```', y)\n```",
            "x = re.findall(r'```(.*?)```', y)\n",
        ),
        (f"```python\n{FENCED_STRING}```\nand\n```yaml\na: 1\n```", FENCED_STRING),
        (f"````python\n{FENCED_STRING}````", FENCED_STRING),
        ("~~~python\nx = 1\n~~~", "x = 1\n"),
        ("1. This:\n   ```python\n   if x:\n       y = 1\n   ```", "if x:\n    y = 1\n"),
        ("```python\nx = 0\n```\nNo, better:\n```python\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1\n", "x = 1\n\n"),
        ("```python\nx = (\n```\n", "x = (\n"),
        ("Use ```python``` for it.", None),
        ("```yaml\nx: 1\n```", None),
    ],
)
def test_the_last_block_of_a_language_is_found_whole(answer: str, python: str | None) -> None:
    assert last_blocks(answer, ["python"]).get("python") == python


def test_blocks_are_found_in_order() -> None:
    answer = "```python\nx = '```yaml'\n```\ntext\n```yaml\na: 1\n```\n"

    assert [(block.language, block.text) for block in blocks_in(answer)] == [
        ("python", "x = '```yaml'\n"),
        ("yaml", "a: 1\n"),
    ]
