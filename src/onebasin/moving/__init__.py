"""A model between models, with weights that latents move: latents make maps, maps move frozen weights, blocks run."""
