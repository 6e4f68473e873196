"""A whole cluster on one machine, for a while: atf up, and what keeps its processes."""
