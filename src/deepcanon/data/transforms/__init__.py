"""Transforms of whole data sets, chosen by suffixes on their names."""
