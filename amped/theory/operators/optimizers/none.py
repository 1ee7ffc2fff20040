"""No optimizer: training keeps only weights and gradients."""
