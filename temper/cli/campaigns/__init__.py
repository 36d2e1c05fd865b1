"""Commands for campaigns."""
