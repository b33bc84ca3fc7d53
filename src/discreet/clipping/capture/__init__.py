"""What the modules of a model are given, and the gradients of what they return."""
