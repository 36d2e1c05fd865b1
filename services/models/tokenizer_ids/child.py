"""Encodes probe texts in a runtime, with its transformers and with tokenizer.json itself.

``python -m services.models.tokenizer_ids.child`` in that runtime. It reads a list of
{folder, texts} on stdin as JSON and writes a list of `RuntimeIds`, one for each, to stdout. Code of
models never runs.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from services.models.tokenizer_ids.files import TOKENIZER


def ids_of(folder: Path, texts: list[str]) -> dict[str, Any]:
    """The fields of `services.models.tokenizer_ids.compare.RuntimeIds`."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
        built = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        return {
            "class_name": type(tokenizer).__name__,
            "built": built,
            "plain": _plain_ids(folder, texts),
        }
    except Exception as error:  # the libraries raise anything for a broken folder
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())[:500]}


def _plain_ids(folder: Path, texts: list[str]) -> list[list[int]] | None:
    """The ids by tokenizer.json as it stands; None without one."""
    if not (folder / TOKENIZER).is_file():
        return None
    plain = Tokenizer.from_file(str(folder / TOKENIZER))
    plain.no_truncation()
    plain.no_padding()
    return [plain.encode(text, add_special_tokens=False).ids for text in texts]


def main() -> None:
    # The libraries print; only the answer may reach stdout.
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    asked = json.load(sys.stdin)
    json.dump([ids_of(Path(each["folder"]), each["texts"]) for each in asked], answer)
    answer.close()


if __name__ == "__main__":
    main()
