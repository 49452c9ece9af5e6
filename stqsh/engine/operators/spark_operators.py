"""Evaluate and Aggregate as stateful operators of Spark, for clusters: Spark moves them with their state.

Each is keyed by slot, collects its slot's chunks of the batch, and folds them into the slot's state. Between
the two, partials go to the slot of their query; everything else keeps its slot. Once a live stream has been
repartitioned, the dealers of such streams precede them, all in one operator. Spark cannot add an operator to
a query, so a new query continues from the slots' heads of the query without dealers.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Sequence

from pyspark.sql import DataFrame, GroupedData, SparkSession

from stqsh.engine.ingest.dealer import Dealers
from stqsh.engine.operators.slot_processor import HEAD, SlotProcessor
from stqsh.engine.operators.slot_task import AGGREGATE, EVALUATE, OperatorContext
from stqsh.engine.spark.schema import HEAD_SCHEMA, SPARK_SCHEMA
from stqsh.engine.spark.spark_internals import Heads, slot_keys, stored_values
from stqsh.engine.state.slot_runner import Fold
from stqsh.storage.blobs import Blobs

OPERATORS = (EVALUATE, AGGREGATE)
"""The operators of each session, in order."""


def with_operators(
    spark: SparkSession,
    chunks: DataFrame,
    context: OperatorContext,
    heads: Heads,
    folds: Sequence[Fold] = OPERATORS,
) -> DataFrame:
    """Append the operators to a stream of chunks.

    Args:
        spark: the session that runs the query.
        chunks: the stream.
        context: the operators' view of the session.
        heads: the initial heads of the operators, in a query with dealers; {} for one without.
        folds: the operators, in order.
    """
    if heads:
        dealers = Dealers(context.blobs, context.slots)
        initial = _frame(spark, heads[dealers.name], context.slots) if dealers.name in heads else None
        chunks = _with_operator(chunks, dealers, context, initial)
    for fold in folds:
        initial = _frame(spark, heads[fold.name], context.slots) if heads else None
        chunks = _with_operator(chunks, fold, context, initial)
    return chunks


def stored_heads(
    spark: SparkSession,
    checkpoint: Blobs,
    slots: int,
    folds: Sequence[Fold] = OPERATORS,
    *,
    with_dealers: bool = False,
) -> Heads:
    """Return the heads of all slots after the last complete batch of a query.

    Args:
        spark: the session that runs the query.
        checkpoint: the query's checkpoint.
        slots: the number of slots.
        folds: the operators, in order, without dealers.
        with_dealers: whether the heads of dealers are wanted, which have dealt records.
    """
    slot_of = {key: slot for slot, key in enumerate(slot_keys(slots))}
    names = [fold.name for fold in reversed(folds)] + [Dealers.name] * with_dealers  # as Spark numbers them
    found: Heads = {}
    for operator, name in enumerate(names):
        rows = stored_values(spark, checkpoint, operator, HEAD).collect()
        heads = {str(slot_of[row.key[0]]): b64encode(row.value[0]).decode() for row in rows}
        found[name] = dict(sorted(heads.items()))
    return found


def _frame(spark: SparkSession, heads: dict[str, str], slots: int) -> GroupedData:
    """Return heads as a frame by slot, the form of an operator's initial state."""
    keys = slot_keys(slots)
    rows = [(keys[int(slot)], bytearray(b64decode(head))) for slot, head in heads.items()]
    return spark.createDataFrame(rows, f"slot_key int, {HEAD_SCHEMA}").groupBy("slot_key")


def _with_operator(
    chunks: DataFrame, fold: Fold, context: OperatorContext, initial: GroupedData | None
) -> DataFrame:
    return chunks.groupBy("slot_key").transformWithStateInPandas(
        SlotProcessor(fold.name, pickle.dumps((fold, context))), SPARK_SCHEMA, "append", "none", initial
    )
