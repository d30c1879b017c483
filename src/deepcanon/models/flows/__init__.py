"""Normalizing flows: invertible maps between data and noise, with exact likelihoods."""
