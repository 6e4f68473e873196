"""Takes tasks from the queues and claims them, for executors and apps that wait for work."""
