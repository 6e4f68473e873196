"""How calls of others are made, whoever makes them: repeated, gathered, shared. Knows no role, no store and no transport."""
