"""One tokenizer for a model in every runtime: its files, prepared and compared."""
