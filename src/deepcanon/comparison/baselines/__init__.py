"""Baselines that a comparison sets next to the models of the catalogue, one method each."""
