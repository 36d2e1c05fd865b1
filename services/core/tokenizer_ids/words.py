"""Whether two models have the same words, so that one can learn from the other's probabilities."""

from pathlib import Path

from services.contracts.errors import InvalidRequest
from services.core.tokenizer_ids.prepared import vocabulary_of

CODE = "vocabulary_differs"


def check_same_words(student: Path, teacher: Path, param: str = "model") -> None:
    """Raise InvalidRequest where an id means another word to the teacher.

    Vocabularies of one family may end at different ids: only ids that both have are compared.
    """
    words = {token: text for text, token in vocabulary_of(student).items()}
    try:
        others = {token: text for text, token in vocabulary_of(teacher).items()}
    except InvalidRequest as error:
        error.param = param
        raise
    different = [token for token in words.keys() & others.keys() if words[token] != others[token]]
    if not different and words.keys() & others.keys():
        return
    first = min(different, default=None)
    example = (
        ""
        if first is None
        else (
            f": token {first} is {words[first]!r} to the model and {others[first]!r} to the teacher"
        )
    )
    raise InvalidRequest(
        f"the teacher has another vocabulary: {len(different):,} of "
        f"{len(words.keys() & others.keys()):,} common ids differ{example}",
        param=param,
        code=CODE,
    )
