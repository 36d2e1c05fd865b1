"""Experiment trackers: TensorBoard, W&B, trackio, MLflow and SwanLab.

Each is a process of its own that follows the reports of a job: what it does, and what it fails to
do, changes nothing about the work.
"""
