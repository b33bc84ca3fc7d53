"""Train a neural network on people's data, publish it, and prove what it gives away."""
