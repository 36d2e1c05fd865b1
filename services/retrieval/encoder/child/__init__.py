"""The encoder's process: it holds a model and answers over a Unix socket."""
