"""Forward passes of causal models without padding, and logits that never exist whole."""
