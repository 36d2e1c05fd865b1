"""LLaMA-Factory's training arguments and what Temper does with each."""
