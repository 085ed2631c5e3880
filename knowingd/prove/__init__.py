"""Proofs out of stored graphs: bundles that verify without this program."""
