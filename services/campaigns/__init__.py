"""The campaign worker: in each loop an LLM proposes a fine-tune, and measurements decide."""
