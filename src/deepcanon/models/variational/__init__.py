"""Latent-variable models with a variational bound."""
