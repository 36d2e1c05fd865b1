"""The settings in a run file of slime, as those of an online job.

Arguments that decide what is trained are mapped or rejected by name; the defaults are those of
slime/utils/arguments.py (0.2) and, for the optimizer, of Megatron-LM.
"""

from collections.abc import Mapping
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.training.methods import MethodType
from services.contracts.training.policy_loss import AdvantageEstimator, Aggregation, RatioLevel
from temper.formats.decisive_settings import Allowed, check_allowed
from temper.formats.published_runs import RunSettings, Section

DEFAULTS: Mapping[str, Any] = {
    "--advantage-estimator": "grpo",
    "--adam-beta1": 0.9,
    "--adam-beta2": 0.999,
    "--apply-chat-template": False,
    "--clip-grad": 1.0,
    "--entropy-coef": 0.0,
    "--eps-clip": 0.2,
    "--kl-loss-type": "k1",
    "--lr": 1e-6,
    "--lr-decay-style": "linear",
    "--n-samples-per-prompt": 1,
    "--rollout-shuffle": False,
    "--rollout-seed": 42,
    "--weight-decay": 0.01,
}

_ALLOWED: Allowed = {
    "--apply-chat-template": (True,),
    "--loss-type": ("policy_loss",),
    "--lr-decay-style": ("constant",),
    "--num-critic-only-steps": (0,),
    "--optimizer": ("adam",),
    "--pg-loss-type": ("ppo",),
    "--rollout-shuffle": (True,),
}
_NOT_OFFERED = (
    *("--buffer-filter-path", "--data-source-path", "--disable-compute-advantages-and-returns"),
    *("--disable-rewards-normalization", "--freeze-params-name-list", "--freeze-indexer"),
    *("--mask-offpolicy-in-partial-rollout", "--megatron-config-path", "--multimodal-keys"),
    *("--only-train-params-name-list", "--partial-rollout", "--ref-update-interval"),
    *("--reset-optimizer-states", "--rollout-data-postprocess-path", "--rollout-function-path"),
    *("--rollout-sample-hook-path", "--rollout-stop-token-ids", "--use-opd"),
    *("--use-rollout-routing-replay", "--use-routing-replay", "--use-score-centering"),
    *("--use-stateless-adam", "--rollout-max-context-len"),
)
_TIS_FUNCTION = "--custom-tis-function-path"
_ICEPOP = "icepop_function"
"""slime's own other kind of weights, which leaves tokens out instead of cutting their weights."""
_CUSTOM, _OF_LOGS, _LORA = "--custom-", "log-function-path", "--lora"
_REWARD = "--custom-rm-path"
"""The job file names the reward; this is a note."""
_INFORMATIVE = "check_reward_nonzero_std"
_ESTIMATORS = {
    "grpo": MethodType.REINFORCEMENT,
    "gspo": MethodType.REINFORCEMENT,
    "ppo": MethodType.PPO,
}
_KL_TYPES = {"k1": "k1", "k2": "k2", "k3": "k3", "low_var_kl": "k3"}
_UNLIMITED = 65_536


def with_defaults(settings: Section) -> Section:
    """The arguments of a script over slime's defaults."""
    return {**DEFAULTS, **settings}


def slime_method(run: RunSettings) -> MethodType:
    """The method of the advantage estimator; raises InvalidRequest naming it."""
    name = run.value("--advantage-estimator")
    if name not in _ESTIMATORS:
        known = ", ".join(_ESTIMATORS)
        raise _refused("--advantage-estimator", f"{str(name)[:80]!r}; known are {known}")
    return _ESTIMATORS[name]


def slime_hyperparameters(run: RunSettings, settings: Section) -> dict[str, Any]:
    """The hyperparameters, null where slime's own depend on the data; raises InvalidRequest naming
    the argument."""
    method = slime_method(run)
    _check(run, settings)
    steps = run.integer("--num-rollout")
    prompts = run.integer("--rollout-batch-size")
    return {
        "steps": steps,
        "prompts_per_step": prompts,
        "mini_batches": _mini_batches(run, prompts),
        "checkpoint_steps": run.integer("--save-interval"),
        "eval_interval": run.integer("--eval-interval"),
        "eval_samples": run.integer("--n-samples-per-eval-prompt"),
        "chat_template_kwargs": run.value("--apply-chat-template-kwargs"),
        "optimizer": _optimizer(run, steps),
        "loss": _loss(run, method),
        **(_of_ppo(run) if method is MethodType.PPO else _of_groups(run)),
    }


def _check(run: RunSettings, settings: Section) -> None:
    check_allowed(run, _ALLOWED, dict.fromkeys(_NOT_OFFERED, (False,)))
    for key in settings:
        is_function = key.startswith(_CUSTOM) and not key.endswith(_OF_LOGS)
        is_function = is_function and key not in (_REWARD, _TIS_FUNCTION)
        if is_function or key.startswith(_LORA):
            raise _refused(key)


def _mini_batches(run: RunSettings, prompts: int | None) -> int | None:
    steps, size = run.integer("--num-steps-per-rollout"), run.integer("--global-batch-size")
    if steps is not None or size is None or prompts is None:
        return steps
    samples = prompts * (run.integer("--n-samples-per-prompt") or 1)
    if size < 1 or samples % size:
        raise _refused("--global-batch-size", f"{size}: it does not divide {samples} samples")
    return samples // size


def _optimizer(run: RunSettings, steps: int | None) -> dict[str, Any]:
    warmup, share = run.integer("--lr-warmup-iters"), run.number("--lr-warmup-fraction")
    if warmup is None and share is not None and steps is not None:
        warmup = round(share * steps)
    return {
        "learning_rate": run.number("--lr"),
        "weight_decay": run.number("--weight-decay"),
        "adam_beta1": run.number("--adam-beta1"),
        "adam_beta2": run.number("--adam-beta2"),
        "max_grad_norm": run.number("--clip-grad"),
        "warmup_steps": warmup,
    }


def _loss(run: RunSettings, method: MethodType) -> dict[str, Any]:
    low, high = run.number("--eps-clip"), run.number("--eps-clip-high")
    per_token = run.flag("--calculate-per-token-loss")
    aggregation = Aggregation.MEAN_OF_TOKENS if per_token else Aggregation.MEAN_OF_SEQUENCE_MEANS
    sequences = run.value("--advantage-estimator") == "gspo"
    return {
        "clip_low": low,
        "clip_high": low if high is None else high,
        "dual_clip": run.number("--eps-clip-c"),
        "ratio": RatioLevel.SEQUENCE.value if sequences else None,
        "aggregation": aggregation.value,
        "anchor": "sampler" if run.flag("--use-rollout-logprobs") else None,
        **_correction(run),
        "entropy_bonus": run.number("--entropy-coef"),
        "kl": _kl(run, method),
    }


def _correction(run: RunSettings) -> dict[str, Any]:
    """Weights and masks for a sampler that is not the policy."""
    low, cap = run.number("--tis-clip-low") or 0.0, run.number("--tis-clip")
    cap = 2.0 if cap is None else cap
    function = run.value(_TIS_FUNCTION)
    found: dict[str, Any] = {"tis_cap": cap if run.flag("--use-tis") else None}
    if function is not None and run.flag("--use-tis"):
        if str(function).rpartition(".")[2] != _ICEPOP:
            raise _refused(_TIS_FUNCTION, f"only {_ICEPOP} is offered")
        found["token_mask"] = [low, cap]
    elif low and run.flag("--use-tis"):
        raise _refused("--tis-clip-low", "weights have no lower bound")
    if run.flag("--use-opsm"):
        if not run.flag("--use-rollout-logprobs"):
            raise _refused("--use-opsm", "it compares with the sampler: --use-rollout-logprobs")
        delta = run.number("--opsm-delta")
        found["off_policy_mask"] = 1e-4 if delta is None else delta
    return found


def _kl(run: RunSettings, method: MethodType) -> dict[str, Any] | None:
    in_loss, in_reward = run.number("--kl-loss-coef"), run.number("--kl-coef")
    kind = run.value("--kl-loss-type")
    if kind not in _KL_TYPES:
        raise _refused("--kl-loss-type", f"{str(kind)[:80]!r}; known are {', '.join(_KL_TYPES)}")
    if not run.flag("--use-kl-loss"):
        in_loss = None
    if in_reward and (in_loss or method is not MethodType.PPO):
        raise _refused("--kl-coef", "a penalty in the reward belongs to ppo without a KL loss")
    is_unbiased = run.flag("--use-unbiased-kl")
    if not (in_loss or in_reward):
        return None
    estimator = _KL_TYPES[kind]
    if is_unbiased and in_loss:
        if estimator != "k3":
            raise _refused("--use-unbiased-kl", "it is offered for k3")
        estimator = "unbiased"
    return {
        "coefficient": in_loss or in_reward,
        "to": "loss" if in_loss else "reward",
        "estimator": estimator,
    }


def _of_ppo(run: RunSettings) -> dict[str, Any]:
    rate, clip = run.number("--critic-lr") or run.number("--lr"), run.number("--value-clip")
    return {
        "gamma": run.number("--gamma") or 1.0,
        "gae_lambda": run.number("--lambd") or 1.0,
        "whiten_advantages": run.flag("--normalize-advantages"),
        "critic": {
            "learning_rate": rate or run.number("--lr"),
            "clip": 0.2 if clip is None else clip,
        },
    }


def _of_groups(run: RunSettings) -> dict[str, Any]:
    if run.flag("--normalize-advantages"):
        raise _refused("--normalize-advantages", "it belongs to ppo")
    chosen = run.value("--dynamic-sampling-filter-path")
    if chosen is not None and str(chosen).rpartition(".")[2] != _INFORMATIVE:
        raise _refused("--dynamic-sampling-filter-path", f"only {_INFORMATIVE} is offered")
    plain = run.flag("--disable-grpo-std-normalization")
    return {
        "advantage": AdvantageEstimator.DR_GRPO.value if plain else None,
        "dynamic_sampling": None if chosen is None else {"max_batches": _UNLIMITED},
    }


def _refused(key: str, reason: str = "it is not offered") -> InvalidRequest:
    return InvalidRequest(f"{key} is not supported: {reason}", param=key)
