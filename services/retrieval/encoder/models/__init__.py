"""Model backends; imported only by the encoder process, as they pull in torch."""
