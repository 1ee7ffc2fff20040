"""No optimizer: nothing is kept beside weights and gradients."""
