"""Diffusion models: noise is added in small timesteps, and the reverse process is learned."""
