"""A trained value head as a sequence classifier with one label, which loads on its own.

Stage rm leaves a language model, or an adapter for one, with ``value_head.safetensors`` beside it.
"""

import json
import shutil
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
)

from services.core.artifacts import ADAPTER_CONFIG, VALUE_HEAD
from services.trainer.errors import TrainingFailure

CHAT_TEMPLATE = "chat_template.jinja"
_HEAD_WEIGHT = "v_head.summary.weight"
_STALE = ("*.safetensors", "*.safetensors.index.json", ADAPTER_CONFIG, "generation_config.json")


def convert_to_classifier(
    directory: Path,
    base: Path,
    response_ends: list[int],
    chat_template: str | None = None,
    *,
    trusted: bool = False,
) -> None:
    """Replace the content of a model folder by a sequence classifier that gives equal scores.

    A score is that of a conversation's last token, as in training: ``chat_template`` ends there; if
    it is None, the model's own is changed to omit what follows. Padding is not among
    ``response_ends``. An adapter is merged into ``base``. The model's own code may run where it is
    ``trusted``. Raises TrainingFailure for an architecture without classifier.
    """
    language_model = _language_model(directory, base, trusted=trusted)
    classifier = _classifier(language_model, trusted=trusted)
    head = load_file(directory / VALUE_HEAD)[_HEAD_WEIGHT]
    with torch.no_grad():
        classifier.score.weight.copy_(head)
    tokenizer = AutoTokenizer.from_pretrained(str(directory), trust_remote_code=trusted)
    padding = tokenizer.pad_token_id
    classifier.config.pad_token_id = None if padding in response_ends else padding
    converted = directory.with_name(f"{directory.name}.classifier")
    shutil.rmtree(converted, ignore_errors=True)
    classifier.save_pretrained(converted)
    for pattern in _STALE:
        for path in directory.glob(pattern):
            path.unlink()
    for path in converted.iterdir():
        path.replace(directory / path.name)
    converted.rmdir()
    if chat_template is None:
        _end_with_response(directory)
    else:
        _set_chat_template(directory, chat_template)


def _language_model(directory: Path, base: Path, *, trusted: bool) -> PreTrainedModel:
    is_adapter = (directory / ADAPTER_CONFIG).exists()
    place = base if is_adapter else directory
    model = AutoModelForCausalLM.from_pretrained(
        str(place), dtype="auto", trust_remote_code=trusted, use_safetensors=True
    )
    if is_adapter:
        return PeftModel.from_pretrained(model, str(directory)).merge_and_unload()
    return model


def _classifier(language_model: PreTrainedModel, *, trusted: bool) -> PreTrainedModel:
    config = language_model.config
    config.num_labels = 1
    try:
        classifier = AutoModelForSequenceClassification.from_config(
            config, dtype=config.dtype, trust_remote_code=trusted
        )
    except ValueError as error:
        raise TrainingFailure(
            f"{config.model_type} models cannot be sequence classifiers", code="model_load_failed"
        ) from error
    if not isinstance(getattr(classifier, "score", None), torch.nn.Linear):
        raise TrainingFailure(
            f"{config.model_type} classifiers have no linear score", code="model_load_failed"
        )
    body = getattr(classifier, classifier.base_model_prefix)
    body.load_state_dict(language_model.base_model.state_dict())
    return classifier


def _end_with_response(directory: Path) -> None:
    """Make the chat template drop the white space after the last turn.

    Templates end a turn with a line break, which belongs to the next context; the trained score is
    that of the token before it.
    """
    path = directory / CHAT_TEMPLATE
    if not path.exists():
        return
    template = path.read_text(encoding="utf-8")
    ended = f"{{% set rendered %}}{template}{{% endset %}}{{{{ rendered.rstrip() }}}}"
    _set_chat_template(directory, ended)


def _set_chat_template(directory: Path, template: str) -> None:
    (directory / CHAT_TEMPLATE).write_text(template, encoding="utf-8")
    settings = directory / "tokenizer_config.json"
    content = json.loads(settings.read_bytes())
    if content.pop("chat_template", None) is not None:  # it would take precedence over the file
        settings.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
