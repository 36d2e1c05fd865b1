"""Reward models: sequence classifiers with one label, loaded in a process of their own."""
