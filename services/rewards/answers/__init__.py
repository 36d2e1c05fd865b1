"""Where the answer is in the text of a model, and how its numbers and choices are written."""
