"""The report of one run: a single HTML file that opens anywhere, without a connection."""

from graphsde.view.report.build import render_report, write_report
from graphsde.view.report.content import ReportContent

__all__ = ["ReportContent", "render_report", "write_report"]
