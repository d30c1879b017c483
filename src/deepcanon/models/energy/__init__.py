"""Energy-based models: a density given by an energy up to the partition function."""
