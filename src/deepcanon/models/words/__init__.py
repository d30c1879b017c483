"""Word embeddings, and maps of any embedding."""
