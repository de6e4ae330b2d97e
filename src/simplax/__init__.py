"""Diffusion over categories, trained, sampled and fairly compared."""
