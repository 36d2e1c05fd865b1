"""/v1/datasets."""
