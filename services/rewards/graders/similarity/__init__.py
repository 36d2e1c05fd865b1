"""How alike two texts are, as translations and summaries are measured: numbers from 0 to 1."""
