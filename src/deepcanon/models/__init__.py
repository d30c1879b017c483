"""The models of the canon, one per file, by family."""
