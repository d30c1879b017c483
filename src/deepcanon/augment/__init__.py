"""Data augmentation: motions and perturbations of whole batches, drawn from counters."""
