"""What each secret is good for, once it is stolen: tried on a small cluster, and compared with a table."""
