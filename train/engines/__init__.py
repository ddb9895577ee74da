"""Engines that train a recipe of ours where one GPU is too small: ``creditflow train CONFIG --engine verl``.

An adapter (``train/adapters``) is called by another trainer; an engine is called by us, and its trainer calls our adapter.
"""
