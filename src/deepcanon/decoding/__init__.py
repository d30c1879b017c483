"""Decoding: tokens drawn from models of sequences, and the losses of the next token."""

from deepcanon.decoding.generation import choose, filtered, generate
from deepcanon.decoding.next_token import next_token_nats, next_token_nll

__all__ = ["choose", "filtered", "generate", "next_token_nats", "next_token_nll"]
