"""The script that draws the page; the framework runs it anew for every click."""

from graphsde.view.app.panels.shell import show

show()
