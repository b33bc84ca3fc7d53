"""Jobs of `discreet audit` that train or read a model: one whole run, and attacks on a published folder."""
