"""Verbs that documentation and commit messages begin with.

Counted over the first words of doc comments of public packages. A verb is kept when an article or pronoun follows often
enough that the word is rarely a noun. A query that begins with one describes what a function does.
"""

from __future__ import annotations

import re

_BASE = (
    "abort accept accumulate acquire activate adapt add adjust adopt align allocate allow analyze animate "
    "annotate append apply approve ask assemble assert assign associate assume attach augment avoid await begin "
    "bring build bump calculate call cancel canonicalize capitalize catch centralize change check choose clamp "
    "classify clean clear clone close coerce collapse collect commit compare compile compose compress compute "
    "concatenate configure confirm connect consider constrain construct consume continue convert copy correct "
    "create customize deallocate decide declare decode decompose decompress decorate decrease decrement decrypt "
    "deduplicate define delete deploy describe destroy detach detect determine disable discard disconnect "
    "discover dispatch dispose divide download drain drop embed emit emulate encapsulate encode encrypt enforce "
    "enhance enqueue ensure enter enumerate erase establish estimate evaluate examine execute exit expand expect "
    "expire explain export expose extend extract fail feed fetch fill finalize find finish fix flatten flip flush "
    "follow force forget free freeze fuse generate get give grab guess handle highlight hold honor hydrate "
    "identify ignore implement import improve include increase increment indicate infer inform initialise "
    "initialize initiate insert inspect instantiate instruct integrate intercept interpret introduce invalidate "
    "invert invoke join keep kill launch leave let load locate look maintain make materialize memoize merge migrate "
    "modify move multiply mutate negate normalize notify observe obtain open optimize override overwrite parse "
    "partition pass perform persist play populate predict prepare prepend preprocess preserve prevent print "
    "process produce promote provide prune publish put quantize raise read rebase rebuild receive recognize "
    "recompute reconstruct recover recreate reduce refactor reflect register reinitialize reload remap remember "
    "remove rename render repeat replace represent require reseed reset reshape resize resolve respect restart "
    "restore restrict retrieve return rework rewrite rotate run sanitize save say send set setup show shrink "
    "simplify simulate skip solve specify split start stop store stringify submit subtract suggest summarize "
    "support suppress suspend synchronize terminate throw tokenize translate transpose trim truncate unbind "
    "unescape unlink unload unlock unpack unregister unwrap update use validate verify visualize wake warn wrap "
    "write "
).split()
_SIBILANT = re.compile(r"(?:s|x|z|ch|sh|o)$")
_CONSONANT_Y = re.compile(r"[^aeiou]y$")


def third_person(verb: str) -> str:
    """Return the verb in the form that follows "it".

    >>> [third_person(verb) for verb in ("return", "fix", "apply")]
    ['returns', 'fixes', 'applies']
    """
    if _SIBILANT.search(verb):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if _CONSONANT_Y.search(verb) else f"{verb}s"


def past(verb: str) -> str:
    """Return the past tense of a regular verb.

    >>> [past(verb) for verb in ("add", "remove", "apply")]
    ['added', 'removed', 'applied']
    """
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb[:-1]}ied" if _CONSONANT_Y.search(verb) else f"{verb}ed"


BASE_FORMS = frozenset(_BASE)
"""return, fix …"""
DOES = frozenset(map(third_person, _BASE))
"""returns, fixes …"""
ACTIONS = DOES | frozenset(form for verb in _BASE for form in (verb, past(verb)))
"""All of them in their forms, lower case."""
