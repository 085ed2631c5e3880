"""Measures whether the graph is right: truth from scip-python, ours from `knowing export`, and the comparison."""
