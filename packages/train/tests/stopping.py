"""What a training dies of when a test stops it on purpose."""


class Stopped(Exception):
    """The training was stopped on purpose."""
