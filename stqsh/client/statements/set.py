"""SET: change a setting of the session, and apply its immediate effects."""

from __future__ import annotations

from collections.abc import Iterator

from stqsh.client.results import Message, Outcome
from stqsh.client.show.load_words import demand, load_sentence
from stqsh.client.statements.context import StatementContext
from stqsh.lang.ast import statements
from stqsh.lang.binder.bind import bind
from stqsh.lang.printer.printer import to_sql
from stqsh.profile import Profile
from stqsh.storage import catalogue_writer, shedding_orders
from stqsh.storage.control_log import ControlDb
from stqsh.storage.progress import read_progress
from stqsh.storage.session_settings import check_setting, session_settings


def set_setting(context: StatementContext, statement: statements.SetSetting) -> Iterator[Outcome]:
    """Execute SET key = value; raise `StqshError` for an invalid value."""
    bound = bind(statement, context.view)
    key, db = bound.spec.key, context.connection.db
    value = check_setting(key, str(bound.spec.value))
    with db.transaction():
        catalogue_writer.set_value(db, f"{to_sql(statement)};", key, value)
        settings = session_settings(db, context.profile)
        if key in shedding_orders.SETTINGS:
            shedding_orders.follow_settings(db, settings)
    if key == "durability":
        db.set_durable(value == "disk")
    shown = str(value).lower() if isinstance(value, bool) else value
    yield Message(f"{key} is {shown}{_remark(db, key, settings)}")


def _remark(db: ControlDb, key: str, settings: Profile) -> str:
    """Return a remark on an effect of a setting that the user may not expect."""
    if key.startswith(("engine.", "spark.", "durability")):
        return ", once the engine starts again"
    if key not in shedding_orders.SETTINGS:
        return ""
    wished = shedding_orders.memory_settings(settings)
    if wished.mode != "off" and wished.budget is None:
        return "; nothing is shed before there is a budget: SET shedding.budget = 100000;"
    if wished.mode == "off" and key in ("shedding.budget", "shedding.keep"):
        return "; nothing is shed yet: SET shedding = object;"
    if not shedding_orders.has_significant_streams(db):
        return "; it takes hold with the first stream that is to RETAIN SIGNIFICANT"
    reported = [one for slot in read_progress(db).stats.slots for one in slot.memory.values()]
    return f"; {load_sentence(demand(reported), wished, None)}" if reported else ""
