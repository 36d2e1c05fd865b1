"""The seams with LLaMA-Factory 0.9.5: what is hooked into, mended or left out, by subject."""
