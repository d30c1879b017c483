"""Runs: the folder of a training, its checkpoints, its data, and what its model gives."""
