"""Models of other projects: read their files without running anything in them, and use them as ours."""
