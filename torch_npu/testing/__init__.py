"""Worlds of ranks for tests of multi-NPU code."""

from .world import RankError, World

__all__ = ["RankError", "World"]
