"""Text as tokens: tokenizers, windows and streams."""
