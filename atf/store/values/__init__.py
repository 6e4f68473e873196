"""What goes into the task store's verbs and what comes out: plain values, neither Redis replies nor messages of the wire."""
