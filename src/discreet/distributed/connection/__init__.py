"""What connects processes: the groups of torch.distributed, and how sums travel in them."""
