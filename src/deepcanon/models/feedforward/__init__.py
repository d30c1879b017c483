"""Networks without cycles."""
