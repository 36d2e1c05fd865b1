"""The models of an encoder. Only its process imports what is here: torch and its like."""
