"""Code in a model's text."""

from collections.abc import Sequence

_FENCE = "```"


def last_block(texts: Sequence[str]) -> str | None:
    """The last closed block between fences of three backticks; null without one."""
    for text in reversed(texts):
        block = _last_block(text)
        if block is not None:
            return block
    return None


def _last_block(text: str) -> str | None:
    block: str | None = None
    lines: list[str] | None = None
    for line in text.split("\n"):
        is_fence = line.strip().startswith(_FENCE)
        if lines is None:
            lines = [] if is_fence else None
        elif is_fence and not line.strip().strip("`"):
            block, lines = "\n".join(lines), None
        else:
            lines.append(line)
    return block
