"""Word embeddings."""
