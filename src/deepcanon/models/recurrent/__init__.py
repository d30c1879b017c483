"""Recurrent networks: a sequence is read step by step into a hidden state."""
