"""The demo: the same recorded rollouts under several policies, on this machine, for real."""
