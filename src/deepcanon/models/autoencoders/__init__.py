"""Autoencoders: an encoder to a code, and a decoder that reconstructs the data."""
