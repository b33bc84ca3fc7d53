"""The process groups of torch.distributed that a run uses, and how sums are sent through them."""
