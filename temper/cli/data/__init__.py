"""Commands for files, datasets and indexes, and for prompts over a file of records."""
