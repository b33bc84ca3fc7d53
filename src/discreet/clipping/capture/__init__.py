"""Capture of the inputs of a model's modules, and of the gradients of their outputs."""
