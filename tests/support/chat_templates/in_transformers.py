"""Encodes conversations with transformers; runs in the training runtime.

    python -m tests.support.chat_templates.in_transformers < cases > ids

Cases are a JSON list of {folder, messages, tools}; ids are one list of token ids for each.
"""

import json
import sys

from transformers import PreTrainedTokenizerFast


def main() -> None:
    cases = json.load(sys.stdin)
    ids = []
    for case in cases:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(case["folder"])
        encoded = tokenizer.apply_chat_template(
            case["messages"],
            tools=case["tools"] or None,
            add_generation_prompt=True,
            return_dict=False,
        )
        ids.append(encoded)
    json.dump(ids, sys.stdout)


if __name__ == "__main__":
    main()
