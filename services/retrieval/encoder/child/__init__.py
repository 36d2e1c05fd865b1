"""The encoder process: holds a model and answers over a Unix socket."""
