"""A grid on a scheduler: the code it runs with, what was handed over, and where every cell stands.

Importing this package imports neither torch, lightning nor mlflow.
"""
