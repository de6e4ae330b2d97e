"""Trained models: find, load, sample, score and save them; the bundled ones lie in `models`."""

from simplax.pretrained.model import Model, bundled, find, from_pretrained, is_bundled, place

__all__ = ["Model", "bundled", "find", "from_pretrained", "is_bundled", "place"]
