"""The objects within the diamond that fills a rectangle."""

import numpy as np

from stqsh.core.contract.query_kind import QueryKind, QueryLogic
from stqsh.core.output.batch_output import arrivals
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE


def in_diamond(box, x, y):
    """Return which points lie within the diamond that fills a box x1, y1, x2, y2."""
    x1, y1, x2, y2 = box
    return abs(2 * x - x1 - x2) / (x2 - x1) + abs(2 * y - y1 - y2) / (y2 - y1) <= 1


class DiamondLogic(QueryLogic):
    """One batch: the answer of each query is computed after each step, and the difference is sent."""

    def on_events(self, begun):
        """Report what the events of the batch change."""
        steps = {self.batch.timing.first, *self.batch.objects.events.step.tolist()}
        for step in sorted(steps):
            living = (self.queries.mode == ACTIVE) & (self.queries.until > step)
            for position in np.flatnonzero(living):
                self.update(position, step)

    def box(self, position):
        """Return the rectangle of one query."""
        return [self.queries.array(name)[position] for name in ("x1", "y1", "x2", "y2")]

    def holds(self, position, versions, x, y):
        """Return whether objects at these places are in the answer of one query."""
        return in_diamond(self.box(position), x, y)

    def update(self, position, step):
        """Send what enters and leaves the answer of one query in a step."""
        sent, id_ = SentAnswers(self.batch.state, self.prefix), self.queries.id[position]
        _, before = sent.pop_queries([id_])
        versions, x, y = self.batch.objects.at(step)
        now = np.flatnonzero(in_diamond(self.box(position), x, y)).astype(np.int32)
        sent.add(np.full(len(now), id_), now)
        come, gone = np.setdiff1d(now, before), np.setdiff1d(before, now)
        self.emit(arrivals(step, np.full(len(come), position), versions[come]))
        steps = np.full(len(gone), step)
        why, shown = self.batch.objects.reasons(versions[gone], gone, steps)
        self.emit_removals(step, position, shown, why)

    def retire(self, positions, steps, why):
        """Take back what queries have sent that are dropped or end."""
        sent = SentAnswers(self.batch.state, self.prefix)
        for position, step in zip(positions, steps, strict=True):
            _, objects = sent.pop_queries([self.queries.id[position]])
            shown = self.batch.objects.shown(objects, step - 1)
            self.emit_removals(step, position, shown, np.full(len(shown), why, np.int8))
        super().retire(positions, steps, why)


class DiamondKind(QueryKind):
    """The kind; the name is what WITH (kind => 'diamond') asks for."""

    name = "diamond"
    logic = DiamondLogic

    def select_members(self, selection):
        """Answer a snapshot."""
        objects = selection.in_region()
        held = in_diamond(selection.reach.box, *selection.present.places(objects))
        return selection.satisfying(objects[held])
