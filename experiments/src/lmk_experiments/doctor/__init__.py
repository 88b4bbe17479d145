"""What ``lmk doctor`` looks at: this machine, a cluster as a profile uses it, and a node from the inside.

Importing this package imports neither torch, lightning nor mlflow.
"""
