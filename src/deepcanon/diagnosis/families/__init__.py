"""Measurements of the families of models, each recognized by its methods: one file a family, without judgment."""
