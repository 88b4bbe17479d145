"""The section ``analyze:`` of a grid file: what an entry may say, and the cells that it comes to.

Importing this package imports neither torch, matplotlib nor mteb.
"""
