"""Forward processes and their bridges."""
