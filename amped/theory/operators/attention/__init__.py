"""The operators of attention: projections, scores and values, and which scores are computed."""

PAGES = ("scores", "projections", "multi_latent", "unfused", "fused")
