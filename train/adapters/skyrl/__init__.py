"""SkyRL: our environments in SkyRL-gym, credit per turn in a generator's output, and an estimator that puts it on tokens."""
