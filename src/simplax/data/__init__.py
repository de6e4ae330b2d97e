"""Data: what the models are trained and evaluated on."""
