"""Suites: declared lists of runs and evaluations, trained and measured alike, and the tables they make."""
