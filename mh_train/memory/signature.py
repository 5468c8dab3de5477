"""What a memory recommends, reduced to something two memories can be compared by.

Why: cosine cannot tell "choose size large" from "choose size small" (measured on two embedders: paraphrases .48-.82,
opposites .67-1.0), so similarity alone must neither delete a record nor call it a contradiction.
Invariant: a signature depends on the texts and on the words the environment itself uses, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set

from mh_train.agent.types import Trajectory
from mh_train.memory.index import words
from mh_train.memory.records import Record, Signature

CATEGORIES = {
    "take": "take pick grab get collect fetch carry",
    "put": "put place move drop leave insert",
    "open": "open",
    "close": "close shut",
    "heat": "heat warm cook",
    "cool": "cool chill",
    "clean": "clean wash rinse",
    "use": "use toggle turn switch",
    "examine": "examine inspect check read verify confirm compare",
    "go": "go walk visit return",
    "search": "search find look query explore",
    "choose": "click select choose",
    "buy": "buy purchase",
    "include": "include add keep",
    "exclude": "exclude remove skip ignore",
}
NEGATIONS = frozenset(words("not never avoid don doesn without no cannot nor stop"))
OPPOSITES = frozenset(
    words(
        "large small big little left right first last before after above below more less most least high low hot cold "
        "on off cheap expensive old new long short inside outside same different ascending descending black white"
    )
)
_NUMBERED = re.compile(r"\b([a-z]+) \d+\b")
_TITLE = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)+\b")
_FUNCTION = frozenset(
    words("a an the to of in on at from with and or for is are it its some you your that this task into by as be i")
)


def entity_words(trajectories: Sequence[Trajectory]) -> frozenset[str]:
    """The words that name things in episodes: of their goals, their actions, and of what is seen numbered things
    ("drawer 1") and titles ("Velora Desk Lamp"); singular, without verbs."""
    texts: dict[str, None] = {}
    for trajectory in trajectories:
        texts[trajectory.goal] = None
        for step in trajectory.steps:
            seen = _NUMBERED.findall(step.observation) + _TITLE.findall(step.observation)
            texts.update(dict.fromkeys([step.action, *step.admissible, *seen]))
    return things_in(" ".join(texts))


def things_in(text: str) -> frozenset[str]:
    """The words of a text that can name things: singular, without verbs and function words."""
    return frozenset(_things(words(text)))


def signature(
    kind: str, env: str, task_type: str, content: str, when: str, goal: str = "", entities: Set[str] = frozenset()
) -> Signature:
    """The signature of advice `content` that holds `when` (its situation or applicability), learnt under `goal`.

    Named things of the goal that the advice mentions are part of its condition ("for bread ..."), all others part of
    its action ("... look in drawer 1")."""
    said = words(content)
    things = {_singular(word) for word in said}
    known = {thing for thing in things if thing in entities or thing in OPPOSITES or thing.isdigit()}
    about = {_singular(word) for word in words(when)} & (entities | OPPOSITES)
    about |= known & set(_things(words(goal)))
    negative = "not " if NEGATIONS & set(said) else ""
    steps = [_CATEGORIES_BY_WORD[word] for word in said if word in _CATEGORIES_BY_WORD]
    ordered = [step for i, step in enumerate(steps) if i == 0 or steps[i - 1] != step]
    return Signature(
        type=kind,
        task=task_type,
        scope=env,
        action=negative + " ".join(ordered),
        options=tuple(sorted(known - about)),
        condition=tuple(sorted(about)),
    )


def same_advice(a: Record, b: Record) -> bool:
    """Whether both recommend (or both warn of) the same thing: only then may a high cosine mean a duplicate.

    Equal words do. Else the actions must be equal, and whatever either signature names as an option must be said by
    both: which words are names depends on the episode that a record is from."""
    if words(a.content) == words(b.content):
        return True
    one, other = a.signature, b.signature
    options = {*one.options, *other.options} - {*one.condition, *other.condition}
    return one.action == other.action and _said(a, options) == _said(b, options)


def _said(record: Record, options: Set[str]) -> set[str]:
    return {*record.signature.options, *map(_singular, words(record.content))} & options


def _things(tokens: Iterable[str]) -> Iterable[str]:
    return (_singular(word) for word in tokens if word not in _FUNCTION and word not in _CATEGORIES_BY_WORD)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _inflections(verb: str) -> Iterable[str]:
    stem = verb[:-1] if verb.endswith("e") else verb
    return (verb, f"{verb}s", f"{verb}es", f"{stem}ing", f"{stem}ed", f"{stem}{stem[-1]}ing", f"{stem}{stem[-1]}ed")


_CATEGORIES_BY_WORD = {
    form: name for name, verbs in CATEGORIES.items() for verb in verbs.split() for form in _inflections(verb)
}
