"""The data sets known by name, one module each."""
