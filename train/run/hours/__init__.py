"""The GPU hours of a training run, estimated before anything is loaded: an order of magnitude, verified on no GPU."""
