"""The success model of PiCA: labels, training, prediction, and serving."""
