"""The ``lmk`` command. Each verb imports what it needs when it runs: ``--help`` and ``plan`` never load torch."""
