"""What people may do on the pages: each action is a form, a command of `atf` that does the same, and a call of the frontend."""
