"""The evaluation child: samples a model on every prompt of a file and grades its answers."""
