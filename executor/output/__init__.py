"""What user code writes and logs in an executor, as lines of its log."""
