"""The tokenizer and chat template that a training uses, and that its model is served with."""

import os
import sys
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from services.contracts.llamafactory.names import Stage
from services.contracts.training.rows import RowKind
from services.models.tokenizer_ids.child import ids_of
from services.models.tokenizer_ids.compare import RuntimeIds, check_built, compare, probes_of
from services.models.tokenizer_ids.files import (
    TOKENIZER,
    read_chat_templates,
)
from services.models.tokenizer_ids.prepared import (
    is_settled,
    one_template,
    prepare_tokenizer,
    vocabulary_of,
)
from services.trainer.errors import TrainingFailure
from services.trainer.offline.job_dir import Context
from services.trainer.offline.library.named_template import chat_template_of, refusing_template
from services.trainer.offline.spec import TrainingSpec
from services.trainer.offline.template_settings import with_default_system, with_variables


def training_tokenizer(spec: TrainingSpec, model: Path, context: Context) -> Path:
    """The folder that tokenizer and chat template are loaded from, here and by LLaMA-Factory.

    It is that of the adapter that is trained further, or of the base. With a named template, or a
    default system message, its chat template renders what is trained, so that the model is saved,
    evaluated and served with it; that of a reward model, which rewards give no variables, has those
    of the training. A model without tokenizer.json keeps its own folder, of which
    vLLM's runtime must build the same tokenizer.
    Raises `InvalidRequest` for files that cannot be read, and for ids that differ.
    """
    folder = spec.model.tokenizer or model
    if not (folder / TOKENIZER).is_file():
        if context.leads:
            check_built(spec.model.location, folder, Path(sys.executable))
        return folder
    # Every process of the training has one: they write at the same time.
    target = context.data_dir / f"tokenizer-{os.environ.get('RANK', '0')}"
    prepared = prepare_tokenizer(folder, target, weights=model)
    _check_ids(spec, prepared)
    template = _trained_template(spec, prepared, context)
    if template is not None:
        prepare_tokenizer(folder, target, weights=model, chat_template=template)
    _add_tokens(spec, prepared)
    return prepared


def adds_tokens(spec: TrainingSpec, prepared: Path, model: Path) -> bool:
    """Whether a prepared tokenizer has tokens beyond the model's own, for which it has no
    embeddings."""
    if not (prepared / TOKENIZER).is_file():
        return False  # the library adds them itself, and says so
    own = spec.model.tokenizer or model
    return vocabulary_of(prepared).keys() > vocabulary_of(own).keys()


def load_tokenizer(model: Path, *, trusted: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer in the folder of a model; raises TrainingFailure. Its own code may run where it
    is ``trusted``."""
    try:
        return AutoTokenizer.from_pretrained(str(model), trust_remote_code=trusted)
    except (OSError, ValueError) as error:
        cause = " ".join(str(error).split())
        raise TrainingFailure(
            f"the tokenizer cannot be loaded: {cause}", code="model_load_failed"
        ) from error


def _check_ids(spec: TrainingSpec, prepared: Path) -> None:
    if not is_settled(prepared):
        probes = probes_of(prepared)
        found = RuntimeIds.model_validate(ids_of(prepared, probes))
        compare(spec.model.location, probes, {"training": found})


def _add_tokens(spec: TrainingSpec, prepared: Path) -> None:
    """Add the tokens that a training adds to the prepared file, so that its rows are encoded, cut
    and reported with them; the library then finds them there (model/patcher.py)."""
    given = {
        special: [each.strip() for each in str(spec.arguments.get(name) or "").split(",")]
        for name, special in (("add_tokens", False), ("add_special_tokens", True))
    }
    if not any(token for tokens in given.values() for token in tokens):
        return
    tokenizer = load_tokenizer(prepared)
    for special, tokens in given.items():
        tokenizer.add_tokens([token for token in tokens if token], special_tokens=special)
    (prepared / TOKENIZER).unlink()  # a link to the model's own
    tokenizer.backend_tokenizer.save(str(prepared / TOKENIZER))


def _trained_template(spec: TrainingSpec, prepared: Path, context: Context) -> str | None:
    """The chat template that renders conversations as they are trained; None: the model's own."""
    if spec.rows is RowKind.TEXT:
        return None
    own = one_template(read_chat_templates(prepared))
    if spec.template is None:
        return None if own is None else _with_settings(spec, own)
    try:
        return chat_template_of(spec.template, load_tokenizer(prepared), spec.arguments, own)
    except TrainingFailure:
        if spec.stage is Stage.RM:  # its scores need one
            raise
    message = f"LLaMA-Factory's template {spec.template} cannot be written as a chat template"
    context.reporter.message(
        f"{message}: the model will be trained, but no conversation with it served or evaluated",
        "warn",
    )
    return refusing_template(message)


def _with_settings(spec: TrainingSpec, own: str) -> str | None:
    """The model's own chat template with what the training adds to it; None: nothing."""
    template = own
    if system := spec.arguments.get("default_system"):
        template = with_default_system(template, str(system))
    if spec.stage is Stage.RM:
        template = with_variables(template, spec.chat_template_kwargs)
    return None if template == own else template
