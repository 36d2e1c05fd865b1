"""The benchmark and the training data of a campaign, and the settings of its trainings."""
