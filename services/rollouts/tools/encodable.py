"""Texts that can be written as UTF-8."""


def encodable(text: str) -> str:
    """The text with surrogates put together to the characters that they mean, and U+FFFD for
    those that mean none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
