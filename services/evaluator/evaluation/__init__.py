"""The evaluation child: asks a model every sample of a file and grades what it answers."""
