"""Live tasks out of a task store into a file, and back: a backup, another store, or another number of partitions."""
