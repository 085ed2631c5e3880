"""The node: indexes repositories, keeps their graphs, exchanges them with peers, answers and proves."""

__version__ = "0.1.0.dev0"
