"""Questions about published claims, decided, and the rows of the instance that decides one."""

from lab.claims.question import decide


def decided_claim(questions, words):
    """Return the decided claim whose statement, alone of these questions, has the given words."""
    (question,) = [question for question in questions if words in question.statement]
    return decide(question)


def first_rows(claim):
    """Return the rows of target and draft after the prompt, each a list."""
    return [list(model.levels[0][0]) for model in (claim.instance.target, claim.instance.draft)]
