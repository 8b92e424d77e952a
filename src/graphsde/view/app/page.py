"""The script that draws the page; the framework reruns it on every click."""

from graphsde.view.app.panels.shell import show

show()
