"""Reinforcement learning with numbers: small networks on Sokoban's vector environment, with and without dense rewards."""
