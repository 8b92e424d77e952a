"""Views for people: report, page, figures."""
