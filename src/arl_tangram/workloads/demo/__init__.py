"""What the demo runs: small Python projects with a bug each, small models, and notes to search in.

``projects/NAME``: a program, its README with the issue, its tests. ``trajectories/NAME-N.toml``: the
turns of one recorded rollout of an agent that tries to repair it, and the share of tests that passes
at its end. ``harness``: what every project gets besides: a test runner that splits the suite over
worker processes, and a source of random cases whose number follows ``DEMO_WORK``; at 1 a suite takes
about a second of one core. ``models``: PyTorch modules that services serve. ``search``: what the
search API finds, with questions about it.
"""
