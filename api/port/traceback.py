"""Failures that are kept for a while, without what they lead to."""


def let_go(error: BaseException | None) -> None:
    """Forget the tracebacks of a failure and of those before it. A traceback leads to the variables of each function
    that it went through; where the failure is one of them they are kept, with all that they hold, until somebody looks
    for cycles."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
