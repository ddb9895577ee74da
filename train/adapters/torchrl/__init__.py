"""TorchRL: our environments as its environments, and a module that writes a scheme's advantage per turn into a TensorDict."""
