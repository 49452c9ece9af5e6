"""Where terms occur: inverted lists of coded texts."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import kernel
from stqsh.core.kernels.text.term_sets import CodedTexts


@kernel
def list_occurrences(coded: CodedTexts, text: Array, terms: int) -> tuple[Array, Array]:
    """List the places of each term.

    Args:
        coded: Texts, with codes below `terms`.
        text: The number of the text at each place, int32 (n,).
        terms: How many terms there are.

    Returns:
        Where the places of each term begin, int64 (terms + 1,), and the places of one term after the other,
        ascending, int32.
    """
    starts = np.zeros(terms + 1, np.int64)
    for place in range(len(text)):
        for at in range(coded.start[text[place]], coded.start[text[place] + 1]):
            starts[coded.codes[at] + 1] += 1
    for term in range(terms):
        starts[term + 1] += starts[term]
    next_place, places = starts[:-1].copy(), np.empty(starts[terms], np.int32)
    for place in range(len(text)):
        for at in range(coded.start[text[place]], coded.start[text[place] + 1]):
            code = coded.codes[at]
            places[next_place[code]] = place
            next_place[code] += 1
    return starts, places
