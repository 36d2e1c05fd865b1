"""Small models, tokenizers and chat templates made for tests."""
