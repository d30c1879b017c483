"""Decoding: tokens drawn from models of sequences, and the losses of the next token."""
