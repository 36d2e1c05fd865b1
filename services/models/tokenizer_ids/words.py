"""Whether a server has the same words as a model, so that one can learn from the other's
probabilities."""

from collections.abc import Mapping
from pathlib import Path

from services.contracts.errors import InvalidRequest
from services.models.tokenizer_ids.files import TOKENIZER
from services.models.tokenizer_ids.prepared import load_json_tokenizer

CODE = "vocabulary_differs"
MOST_PROBED = 256
_UNKNOWN = "\ufffd"


def spread_words(folder: Path) -> dict[int, str]:
    """The texts of at most `MOST_PROBED` tokens that are spread over a vocabulary, by id; tokens
    that are part of a character have none. Raises InvalidRequest."""
    tokenizer = load_json_tokenizer(folder / TOKENIZER)
    known = sorted(tokenizer.get_vocab(with_added_tokens=True).values())
    step = max(1, -(-len(known) // MOST_PROBED))
    texts = {token: tokenizer.decode([token], skip_special_tokens=False) for token in known[::step]}
    return {token: text for token, text in texts.items() if text.strip() and _UNKNOWN not in text}


def check_told_words(words: Mapping[int, str], told: Mapping[int, str], param: str) -> None:
    """Raise InvalidRequest unless a server, which tells the texts of tokens, has the same words.

    Blanks are not compared, as decoding one token drops some, nor are tokens that the server has no
    text for: those of the model that it lacks.
    """
    compared = [token for token in words if _bare(told.get(token, ""))]
    if 2 * len(compared) < len(words):
        raise InvalidRequest(
            f"the teacher's vocabulary cannot be compared: its server tells the text of "
            f"{len(compared):,} of {len(words):,} tokens (prompt_logprobs with decoded_token)",
            param=param,
            code=CODE,
        )
    different = [token for token in compared if _bare(words[token]) != _bare(told[token])]
    if different:
        raise _different(words, told, different, len(compared), param)


def _bare(text: str) -> str:
    return "".join(text.replace(_UNKNOWN, "").split())


def _different(
    words: Mapping[int, str],
    others: Mapping[int, str],
    different: list[int],
    compared: int,
    param: str,
) -> InvalidRequest:
    first = min(different)
    return InvalidRequest(
        f"the teacher has another vocabulary: {len(different):,} of {compared:,} common ids "
        f"differ: token {first} is {words[first]!r} to the model and {others[first]!r} to the "
        "teacher",
        param=param,
        code=CODE,
    )
