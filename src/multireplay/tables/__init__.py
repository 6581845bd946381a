"""A person's table: what its columns hold, which rows can be used, and how both become numbers in chains of rows.

`looks` tells numbers, categories, dates and text apart; a `recipe` (or a `formula`) turns columns into features, the
same way for new rows; `times` finds where time goes back, stands still or jumps; `chains` puts groups, gaps and dropped
rows together into the rows that are used and where each chain of them starts.
"""

from multireplay.tables.chains import ChainedRows, StandingChains, chained, chained_there
from multireplay.tables.looks import Contents, Kind, Look, look_at
from multireplay.tables.recipe import Design, Recipe, Term
from multireplay.tables.times import Times, as_times

__all__ = [
    "ChainedRows", "Contents", "Design", "Kind", "Look", "Recipe", "StandingChains", "Term", "Times", "as_times",
    "chained", "chained_there", "look_at",
]  # fmt: skip
