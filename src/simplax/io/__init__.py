"""Files written whole or not at all, records of what was run, and progress for people."""
