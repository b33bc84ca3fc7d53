"""The rules of torch's operators: which keep examples apart, and where they are afterwards."""

from discreet.clipping.separation.rules import along, indexing, layers, made, products, views

__all__ = ["along", "indexing", "layers", "made", "products", "views"]
