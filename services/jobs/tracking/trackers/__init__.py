"""The trackers: each module imports one package of the tracking runtime, TensorBoard's none."""
