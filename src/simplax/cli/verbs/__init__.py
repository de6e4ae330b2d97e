"""What users type after `simplax`: one module per verb, with a function `main(arguments)`; the list is `VERBS`."""
