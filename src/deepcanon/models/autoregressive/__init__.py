"""Autoregressive models: each value has a distribution conditioned on the values before it."""
