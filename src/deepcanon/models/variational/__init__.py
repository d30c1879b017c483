"""Variational models: latent variables, learned by the evidence lower bound (ELBO)."""
