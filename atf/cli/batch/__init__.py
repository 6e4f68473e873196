"""The commands of batches: atf batch, and what reads their items and shows their progress."""
