"""Small Python projects with a bug each, and recorded rollouts of agents that try to repair them.

``projects/NAME``: a program, its README with the issue, its tests. ``trajectories/NAME-N.toml``: the
turns of one rollout and the share of tests that passes at its end. ``harness``: what every project
gets besides: a test runner that splits the suite over worker processes, and a source of random
cases whose number follows ``DEMO_WORK``; at 1 a suite takes about a second of one core.
"""
