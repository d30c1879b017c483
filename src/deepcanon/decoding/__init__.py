"""Decoding: tokens drawn from models of sequences, beam search, and the losses of the next token."""

from deepcanon.decoding.beam import Beams, DecodingState, beam_search
from deepcanon.decoding.generation import choose, filtered, generate
from deepcanon.decoding.next_token import next_token_nats, next_token_nll

__all__ = [
    "Beams", "DecodingState", "beam_search", "choose", "filtered", "generate", "next_token_nats", "next_token_nll",
]  # fmt: skip
