"""What insights share: layers, objectives, spectra, regions and receptive windows."""
