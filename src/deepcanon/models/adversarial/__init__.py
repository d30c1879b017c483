"""Adversarial models: a generator and a discriminator trained against each other."""
