"""What every process of ATF shares: how a role runs and stops, its streams, its signals, its children and its file descriptors."""
