"""Measurements of speed and memory, as `simplax bench` runs them."""
