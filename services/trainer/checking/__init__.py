"""Check jobs: a training file is validated, and nothing is trained."""
