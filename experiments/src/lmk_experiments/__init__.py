"""Ablation grids over pooling strategies: from one YAML file to the table in the paper.

The folders are the nouns: ``configs`` (YAML with good errors), ``grids`` (a grid file and its plan),
``records`` (cells on disk), ``builders`` (generated data), ``jobs`` (what runs a cell), ``mirror`` (MLflow),
``tables`` (the ablation table) and ``cli`` (the ``lmk`` command).
"""
