"""The rules for torch's operators: which of them keep examples apart, and where the examples are in the outputs."""

from discreet.clipping.separation.rules import along, indexing, layers, layouts, made, products, views

__all__ = ["along", "indexing", "layers", "layouts", "made", "products", "views"]
