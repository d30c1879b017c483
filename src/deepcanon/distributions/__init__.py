"""Distributions that torch lacks, and the layers that turn outputs of a network into distributions."""
