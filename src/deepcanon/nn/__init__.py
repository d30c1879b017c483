"""Parts of networks that torch.nn lacks."""
