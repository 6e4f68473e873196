"""Every method, with every verb, on what is of one's own namespace and of another, with every kind of token: as the table says."""

from __future__ import annotations

from collections import Counter

from atf.auth.grants import Verb
from atf.auth.methods import RULES

from .matrix import BAD, DENIED, HIDDEN, LET_IN, NO_TOKEN, tried


async def test_the_whole_table_over_the_wire() -> None:
    cells = await tried()
    assert not [each for each in cells if each.found != each.expected]
    assert {each.method for each in cells} == RULES.keys()
    assert {each.token for each in cells} == {*BAD, *(each.value for each in Verb), "everywhere"}
    let_in = {each.method for each in cells if each.found == LET_IN}
    assert let_in == RULES.keys()  # none is refused to everybody
    found = Counter(each.found for each in cells)
    assert min(found[each] for each in (NO_TOKEN, DENIED, HIDDEN, LET_IN)) > 10
