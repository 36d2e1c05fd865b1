"""Token counts of a file's rows by a model's own tokenizer."""
