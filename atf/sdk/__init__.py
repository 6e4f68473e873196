"""What code that declares lambdas is made of: apps, lambdas, their signatures, and what travels as arguments. Loads no gRPC."""
