"""Playing conversations of a model with tools, many at once, and keeping every token of them."""
