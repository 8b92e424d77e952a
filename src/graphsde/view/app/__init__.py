"""The local web page: data, fit, nodes, graph, decisions, labels, comparison.

Files here hold what the page shows, as plain functions; files under ``panels`` draw it and are the only ones that know
the page's framework, an optional dependency (extra ``app``).
"""
