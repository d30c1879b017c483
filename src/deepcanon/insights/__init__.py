"""Insights, one per file: measurements of one model on one batch."""
