"""Who may do what: tokens, what they grant, and who calls."""
