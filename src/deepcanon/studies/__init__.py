"""Studies train many times to answer one question."""
