"""Measures this project beside others on one machine, in turns."""
