"""A prepared folder: a tokenizer that transformers loads as its tokenizer.json stands.

Some of transformers' tokenizer classes build normalizer and pre-tokenizer of their own and ignore
those of tokenizer.json, each version differently. The prepared folder declares the class that
changes nothing, names no added tokens beside the file's, and has no model configuration that would
choose another class. All that encodes text of a model loads this folder.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.contracts.base import JsonObject
from services.models.tokenizer_ids.files import (
    CHAT_TEMPLATE,
    DEFAULT,
    GENERATION_CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    TOOL_USE,
    read_chat_templates,
    read_end_tokens,
    read_object,
    read_special_tokens,
    refused,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_TOKENIZER_BYTES = 128 << 20
CLASS = "PreTrainedTokenizerFast"
_KEPT = ("clean_up_tokenization_spaces", "model_max_length", "padding_side")


def prepare_tokenizer(
    folder: Path, target: Path, *, weights: Path | None = None, chat_template: str | None = None
) -> Path:
    """Write the prepared tokenizer of ``folder`` to ``target``, replacing what is there.

    ``chat_template`` replaces the folder's own. The tokens that end generation are those of the
    folder and of ``weights``, the model's. Returns ``target``; raises InvalidRequest for files
    that cannot be read, and for a folder without tokenizer.json.
    """
    source = folder / TOKENIZER
    if not source.is_file():
        raise refused(f"{folder.name} has no {TOKENIZER}")
    if chat_template is None:
        chat_template = one_template(read_chat_templates(folder))
    config = read_object(folder / TOKENIZER_CONFIG)
    described = _described(source)
    settings = {
        "tokenizer_class": CLASS,
        **{name: config[name] for name in _KEPT if name in config},
        **_known(read_special_tokens(folder), described, folder.name),
        **_extra(config, _added_tokens(described)),
    }
    ends = dict.fromkeys([*read_end_tokens(folder), *(read_end_tokens(weights) if weights else ())])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    (target / TOKENIZER).symlink_to(source.resolve())
    _write(target / TOKENIZER_CONFIG, settings)
    _write(target / GENERATION_CONFIG, {"eos_token_id": list(ends)})
    if chat_template is not None:
        (target / CHAT_TEMPLATE).write_text(chat_template, encoding="utf-8")
    return target


def one_template(templates: Mapping[str, str]) -> str | None:
    """A template that renders as the one for tools does with tools, and as the default without;
    None without any. What copies a tokenizer then needs no second file."""
    if not templates:
        return None
    default, with_tools = templates[DEFAULT], templates[TOOL_USE]
    if default == with_tools:
        return default
    # The signs keep line breaks and blanks beside the blocks, which are the templates' own; Jinja
    # drops a line break that ends a whole template.
    default, with_tools = (text.removesuffix("\n") for text in (default, with_tools))
    return f"{{%+ if tools +%}}{with_tools}{{%+ else +%}}{default}{{%+ endif +%}}"


def _known(special: dict[str, str], described: JsonObject, name: str) -> dict[str, str]:
    """The named tokens that a tokenizer.json has; transformers would give others new ids, for which
    the model has no weights. Raises InvalidRequest for an eos_token that it lacks."""
    added = _added_tokens(described)
    if added.issuperset(special.values()):
        return special
    present = added | _words(described)
    end = special.get("eos_token")
    if end is not None and end not in present:
        raise refused(f"the eos_token {end!r} of {name} is not in {TOKENIZER}")
    return {key: text for key, text in special.items() if text in present}


def _words(described: JsonObject) -> set[str]:
    """The texts of a vocabulary: the keys of an object, or the first items of pairs."""
    model: Any = described.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        return set(vocabulary)
    pairs = vocabulary if isinstance(vocabulary, list) else []
    return {str(pair[0]) for pair in pairs if isinstance(pair, list) and pair}


def _extra(config: JsonObject, added: set[str]) -> JsonObject:
    """Further special tokens of the configuration, by name or not, as far as the file has them."""
    kept: JsonObject = {}
    for key in ("additional_special_tokens", "extra_special_tokens"):
        given = config.get(key)
        if isinstance(given, dict):
            kept[key] = {
                name: text
                for name, text in given.items()
                if isinstance(text, str) and text in added
            }
        elif isinstance(given, list):
            kept[key] = [text for text in map(_text_of, given) if text in added]
    return kept


def _text_of(token: Any) -> str:
    return str(token.get("content") if isinstance(token, dict) else token)


def is_settled(prepared: Path) -> bool:
    """Whether tokenizer.json alone decides the ids that a prepared folder gives.

    transformers adds tokens that the configuration names and the file has not among its added
    tokens; nothing else of a prepared folder changes what the file says.
    """
    added = _added_tokens(_described(prepared / TOKENIZER))
    return added.issuperset(read_special_tokens(prepared).values())


def speaks_as(folder: Path, other: Path) -> bool:
    """Whether two folders have equal tokenizers and chat templates.

    tokenizer.json is compared as the library understands it: each version writes it differently.
    """
    if one_template(read_chat_templates(folder)) != one_template(read_chat_templates(other)):
        return False
    return _vocabulary_digest(folder / TOKENIZER) == _vocabulary_digest(other / TOKENIZER)


def vocabulary_of(folder: Path) -> dict[str, int]:
    """Every token's text and id; raises InvalidRequest."""
    return load_json_tokenizer(folder / TOKENIZER).get_vocab(with_added_tokens=True)


def _vocabulary_digest(path: Path) -> str | None:
    if not path.is_file():
        return None
    _check_size(path)
    content = path.read_bytes()
    return _digest(_Content(sha256(content).hexdigest(), path))


@lru_cache(maxsize=1024)
def _digest(content: "_Content") -> str:
    described: JsonObject = json.loads(load_json_tokenizer(content.path).to_str())
    names = ("added_tokens", "model", "normalizer", "pre_tokenizer")
    decisive = {name: described.get(name) for name in names}
    return sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class _Content:
    """A file's content, wherever it is: many adapters have the same tokenizer."""

    checksum: str
    path: Path = field(compare=False)


def load_json_tokenizer(path: Path) -> "Tokenizer":
    """The tokenizer in a file; raises InvalidRequest."""
    # Most processes only copy such files.
    from tokenizers import Tokenizer  # noqa: PLC0415 - loaded with the first tokenizer

    _check_size(path)
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise refused(f"{path.parent.name}/{path.name} cannot be used: {error}") from None


def _described(path: Path) -> JsonObject:
    _check_size(path)
    return read_object(path)


def _added_tokens(described: JsonObject) -> set[str]:
    added: Any = described.get("added_tokens")
    return {
        str(token["content"])
        for token in (added if isinstance(added, list) else ())
        if isinstance(token, dict) and "content" in token
    }


def _check_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise refused(f"{path.parent.name} has no {path.name} that can be read") from error
    if size > MAX_TOKENIZER_BYTES:
        raise refused(f"{path.name} of {path.parent.name} has {size:,} bytes; too many")


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
