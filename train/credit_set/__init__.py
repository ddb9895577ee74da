"""Turns of agents with their values, to compare judges, critics and reward models with."""
