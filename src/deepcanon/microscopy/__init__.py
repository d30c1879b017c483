"""The microscope: value and gradient on every edge of a compute graph, each checked by finite differences."""
