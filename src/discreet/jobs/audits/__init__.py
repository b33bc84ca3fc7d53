"""Jobs of `discreet audit`: a build, one whole run, and attacks on a published folder."""
