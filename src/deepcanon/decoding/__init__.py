"""Decoding: tokens drawn from models of sequences, beam and exact search, and the losses of the next token."""

from deepcanon.decoding.beam import Beams, DecodingState, beam_search, check_search, next_log_probs, penalized
from deepcanon.decoding.exact import exact_search
from deepcanon.decoding.generation import check_prompt, choose, filtered, generate
from deepcanon.decoding.next_token import next_token_nats, next_token_nll
from deepcanon.lazy import listing

__all__ = [
    "Beams", "DecodingState", "beam_search", "check_prompt", "check_search", "choose", "exact_search", "filtered",
    "generate", "next_log_probs", "next_token_nats", "next_token_nll", "penalized",
]  # fmt: skip
__dir__ = listing(__name__)
