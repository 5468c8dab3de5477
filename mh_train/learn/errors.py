"""The learner's own error: a sentence that says what happened to the update and what to do."""


class LearnError(RuntimeError):
    """Training cannot go on; nothing finished is lost."""
