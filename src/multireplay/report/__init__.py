"""Reports: one HTML page that a person wants to look at, and that needs no network.

``result.report("report.html")`` is all that most need. `write` makes a page from sections of blocks;
`report_of_result`, `report_of_diagnosis`, `report_of_tables`, `report_of_reproduction` and `report_of_comparison`
know what to put on one.
"""

from multireplay.report.blocks import Block, Choice, Code, Fact, Facts, Heading, Picture, Plot, Section, Text
from multireplay.report.blocks import FindingBlock as Entry
from multireplay.report.blocks import TableBlock as Table
from multireplay.report.evidence import Shown
from multireplay.report.of_bench import report_of_comparison, report_of_reproduction
from multireplay.report.page import write
from multireplay.report.reports import report_of_diagnosis, report_of_result, report_of_tables, sections_of_result
from multireplay.report.sections.repeat import fingerprint

__all__ = [
    "Block", "Choice", "Code", "Entry", "Fact", "Facts", "Heading", "Picture", "Plot", "Section", "Shown", "Table",
    "Text", "fingerprint", "report_of_comparison", "report_of_diagnosis", "report_of_reproduction", "report_of_result",
    "report_of_tables", "sections_of_result", "write",
]  # fmt: skip
