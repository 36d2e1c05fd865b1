"""Files, their rows, uploads and data sets."""
