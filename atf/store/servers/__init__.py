"""The servers behind a task store: how they are found and connected to, what they must be able to do, and what they say of themselves."""
