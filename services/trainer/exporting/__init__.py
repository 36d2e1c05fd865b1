"""Export jobs: a model's files, copied to a folder, a store or a hub."""
