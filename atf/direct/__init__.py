"""A frontend within the process of a client: for services that are trusted with the task store.

A client whose address is a task store's loads this. Its calls are those of any client, and are answered by the frontend's own code.
"""
