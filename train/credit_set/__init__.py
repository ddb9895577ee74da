"""Credit sets: turns of agents with exact or estimated values, on which judges, critics and reward models are scored."""
