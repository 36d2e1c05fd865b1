"""Rolling out conversations of a model with tools, many concurrently, and recording every token."""
