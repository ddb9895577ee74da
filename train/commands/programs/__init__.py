"""Programs beside ``creditflow`` that read the results of benchmarks."""
