"""An incident as one HTML page that needs nothing else. It says where non-finite values showed, and claims no cause."""

from firstnan.report.page import render as render

__all__ = ["render"]
