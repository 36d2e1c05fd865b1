"""What the demonstrations share: a local stack, steps that reuse earlier results, and tables."""
