"""Shared parts of insights: layer outputs, objectives, Hessian spectra, linear regions and receptive fields."""
