"""Failures that are kept for a while, without the objects that they refer to."""


def let_go(error: BaseException | None) -> None:
    """Drop the tracebacks of a failure and of the failures that led to it (its causes and contexts).

    A traceback refers to the variables of each function that it went through. If the failure is one of these variables,
    all of them stay in memory until the collector finds the cycle.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
