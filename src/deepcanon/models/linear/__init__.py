"""Linear models, and generalized linear models."""
