"""The pages, each as a function from a visit to a template and its values."""
