"""Models that read a sequence step by step and keep what they have read in a state."""
