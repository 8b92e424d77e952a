"""The script that draws the page; the framework reruns it on every click, as the main module."""

from graphsde.view.app.panels.shell import show

if __name__ == "__main__":
    show()
