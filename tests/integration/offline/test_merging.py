"""Merged models compute what the unmerged ones did."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from services.contracts.llamafactory.names import Stage
from services.core.process.reporter import RESULT
from tests.support.training.offline import OfflineJob, rows_of

STOP = 7


def save_adapter(base: Path, folder: Path, added_tokens: int, **settings: Any) -> torch.Tensor:
    """Save an adapter with random weights; return its logits."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base)
    if added_tokens:
        tokenizer.add_tokens([f"<new{number}>" for number in range(added_tokens)])
        model.resize_token_embeddings(len(tokenizer))
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", **settings))
    for name, weight in adapted.named_parameters():
        if weight.requires_grad:
            weight.data += 0.1 * torch.rand_like(weight) * (1 if "lora" in name else 0.1)
    adapted.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with torch.inference_mode():
        logits: torch.Tensor = adapted.eval()(probe(len(tokenizer))).logits
    return logits


def probe(vocabulary: int) -> torch.Tensor:
    """Token ids, the newest token among them."""
    return torch.tensor([[1, 2, 3, vocabulary - 1]])


@pytest.mark.parametrize("variant", ["use_dora", "use_rslora"])
def test_a_variant_of_lora_learns_and_is_merged_as_it_was_trained(
    base: Path, tmp_path: Path, variant: str
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from services.inference.merging.weights import merge_adapter

    arguments = {variant: True, "logging_steps": 1, "num_train_epochs": 3}
    job = OfflineJob(tmp_path / "job", base, Stage.SFT, method="lora", arguments=arguments)
    result = job.run()

    first, *_, last = job.losses().values()
    assert last < 0.9 * first
    adapter = tmp_path / "job" / result["model_dir"]
    config = json.loads((adapter / "adapter_config.json").read_bytes())
    assert config[variant]
    assert (config["r"], config["lora_alpha"], len(config["target_modules"])) == (8, 16, 7)
    assert result["needs_merge"] is (variant == "use_dora")  # vLLM applies rsLoRA's scale
    merge_adapter(base, adapter, tmp_path / "merged", [STOP])
    plain = AutoModelForCausalLM.from_pretrained(base)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    adapted = PeftModel.from_pretrained(plain, str(adapter)).eval()
    with torch.inference_mode():
        torch.testing.assert_close(
            merged(probe(100)).logits, adapted(probe(100)).logits, atol=1e-4, rtol=1e-4
        )


def test_a_merged_adapter_gives_the_logits_of_the_adapter(base: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from services.inference.merging.weights import merge_adapter

    settings: dict[str, Any] = {"modules_to_save": ["embed_tokens", "lm_head"]}
    added_tokens = 2
    expected = save_adapter(base, tmp_path / "adapter", added_tokens, **settings)

    merge_adapter(base, tmp_path / "adapter", tmp_path / "merged", [STOP])

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "merged")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    plain = AutoModelForCausalLM.from_pretrained(base).eval()
    with torch.inference_mode():
        merged = model(probe(len(tokenizer))).logits
        before = plain(probe(len(tokenizer) - added_tokens)).logits
    assert torch.allclose(merged, expected, atol=1e-4)
    assert not torch.allclose(merged[:, :3, : before.shape[-1]], before[:, :3], atol=1e-2)
    assert STOP in model.generation_config.eos_token_id


def test_a_merged_checkpoint_of_a_reward_model_scores_as_the_finished_one(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.rewards.reward_models.classifier import Classifier
    from services.trainer.merging.__main__ import main
    from services.trainer.merging.spec import SPEC, MergeSpec

    changes: dict[str, Any] = {"method": "lora", "template": "chatml"}
    trained = OfflineJob(tmp_path / "training", base, Stage.RM, **changes)
    result = trained.run()
    checkpoint = tmp_path / f"training/output/checkpoint-{result['max_steps']}"
    job_dir = tmp_path / "merge"
    job_dir.mkdir()
    merge = {
        "model": {"path": str(base)},
        "adapter": str(checkpoint),
        "value_head": str(checkpoint),
        "stop_token_ids": result["stop_token_ids"],
        "template": "chatml",
    }
    spec = MergeSpec.model_validate_json(json.dumps(merge))
    (job_dir / SPEC).write_text(spec.model_dump_json())

    monkeypatch.setattr("sys.argv", ["merging", str(job_dir)])
    code = main()

    reported = json.loads((job_dir / RESULT).read_bytes())
    assert (code, reported["status"]) == (0, "succeeded"), reported
    conversations = [
        [*row["input"]["messages"], *row["preferred_output"]] for row in rows_of(Stage.RM)
    ]
    finished = Classifier(tmp_path / "training" / result["model_dir"], 1024)
    merged = Classifier(job_dir / reported["model_dir"], 1024)
    assert merged.score(conversations) == pytest.approx(finished.score(conversations), abs=1e-5)


def test_a_reward_model_whose_output_layer_is_its_embeddings_is_saved(
    base: Path, tmp_path: Path
) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from services.rewards.reward_models.classifier import Classifier

    tied = tmp_path / "tied"
    config = AutoConfig.from_pretrained(base, tie_word_embeddings=True)
    AutoModelForCausalLM.from_config(config).save_pretrained(tied)
    AutoTokenizer.from_pretrained(base).save_pretrained(tied)

    result = OfflineJob(tmp_path / "training", tied, Stage.RM, template="chatml").run()

    scorer = Classifier(tmp_path / "training" / result["model_dir"], 1024)
    [row, *_] = rows_of(Stage.RM)
    conversation = [*row["input"]["messages"], *row["preferred_output"]]
    assert abs(scorer.score([conversation])[0]) > 0


def write_gguf(model: Any, tokenizer: Any, file: Path) -> None:
    """Write a Qwen2 model and a tokenizer as llama.cpp's converter would, in float32."""
    import gguf

    config = model.config
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
    writer.add_token_types([gguf.TokenType.NORMAL] * len(tokenizer))
    writer.add_token_scores([0.0] * len(tokenizer))  # it has no merges
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    for name, weight in model.state_dict().items():
        stem, _, kind = name.rpartition(".")
        writer.add_tensor(f"{names.get_name(stem)}.{kind}", weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_becomes_a_model_of_the_same_logits(base: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    from services.trainer.merging.gguf import convert

    tokenizer = AutoTokenizer.from_pretrained(base)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    model = Qwen2ForCausalLM(
        Qwen2Config(vocab_size=len(tokenizer), tie_word_embeddings=False, **sizes, **heads)
    ).eval()
    file = tmp_path / "model.gguf"
    write_gguf(model, tokenizer, file)

    checksum = convert(file, tmp_path / "converted")

    assert len(checksum) == 64
    config = json.loads((tmp_path / "converted/config.json").read_bytes())
    assert "quantization_config" not in config
    converted = AutoTokenizer.from_pretrained(tmp_path / "converted")
    assert converted.chat_template == tokenizer.chat_template
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "converted").eval()
    ids = probe(len(tokenizer))
    with torch.inference_mode():
        torch.testing.assert_close(again(ids).logits, model(ids).logits)

    incomplete = tmp_path / "incomplete.gguf"
    del model.model.layers[1].mlp.up_proj
    write_gguf(model, tokenizer, incomplete)
    with pytest.raises(ValueError, match=r"does not have the weights of its model: .*up_proj"):
        convert(incomplete, tmp_path / "refused")
