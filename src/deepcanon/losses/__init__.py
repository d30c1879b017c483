"""Measures of fit that are no minus-log-probability."""
