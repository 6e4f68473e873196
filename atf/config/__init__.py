"""The settings of every role, of the store and of the log; settings files, and the allow-lists that are settings."""
