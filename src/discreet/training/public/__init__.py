"""Everything that is computed on public rows: metrics, early stopping, gradients."""
