"""One module per measurement of `simplax evaluate`; the list is in `simplax.cli.verbs.evaluate`."""
