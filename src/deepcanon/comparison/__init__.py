"""Which family of model fits some data: candidates trained on one split, measured, and set out in a report."""
