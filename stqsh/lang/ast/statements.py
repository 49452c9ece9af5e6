"""Statements as the user wrote them: one frozen dataclass for each.

`parse` returns these, `to_sql` turns them back into text, and `bind` checks them against the catalogue. Every
statement knows the piece of source that it came from; comparisons ignore that and the spans.
"""

from __future__ import annotations

from stqsh.lang.ast.definition_statements import (
    CreateAlert,
    CreateRegion,
    CreateRegions,
    CreateSink,
    CreateStream,
    CreateTable,
    Drop,
    Insert,
    ObjectKind,
    ValueRow,
)
from stqsh.lang.ast.query_statements import (
    Explain,
    Follow,
    OrderItem,
    PauseQuery,
    RegisterQueries,
    RegisterQuery,
    Relation,
    ResumeQuery,
    Select,
    SelectItem,
    ShowQuery,
    Subscribe,
    Tail,
)
from stqsh.lang.ast.session_statements import (
    Describe,
    Dump,
    ExportDeadLetters,
    Help,
    Map,
    Pause,
    Play,
    Rebalance,
    Repartition,
    Run,
    SetSetting,
    Show,
    Watch,
)
from stqsh.lang.ast.statement import (
    AlertAction,
    ColumnDefinition,
    DataSource,
    DirectorySource,
    FileSource,
    FileTarget,
    GeneratorSource,
    HttpSource,
    HttpTarget,
    InsertsSource,
    KafkaSource,
    KafkaTarget,
    Options,
    SinkTarget,
    SocketSource,
    Statement,
    StdinSource,
)

__all__ = [
    "AlertAction", "ColumnDefinition", "CreateAlert", "CreateRegion", "CreateRegions", "CreateSink",
    "CreateStream", "CreateTable", "DataSource", "Describe", "DirectorySource", "Drop", "Dump", "Explain",
    "ExportDeadLetters", "FileSource", "FileTarget", "Follow", "GeneratorSource", "Help", "HttpSource",
    "HttpTarget", "Insert", "InsertsSource", "KafkaSource", "KafkaTarget", "Map", "ObjectKind", "Options",
    "OrderItem", "Pause", "PauseQuery", "Play", "Rebalance", "RegisterQueries", "RegisterQuery",
    "Relation", "Repartition", "ResumeQuery", "Run", "Select", "SelectItem", "SetSetting", "Show",
    "ShowQuery", "SinkTarget", "SocketSource", "Statement", "StdinSource", "Subscribe", "Tail",
    "ValueRow", "Watch",
]  # fmt: skip
