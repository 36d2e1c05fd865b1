"""Training rows on their way to the library: its examples, their tokens, and their lengths."""
