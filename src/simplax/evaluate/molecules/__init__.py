"""Generated molecules measured as MOSES does: validity, distances to a test set, properties, controls."""
