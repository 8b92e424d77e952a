"""The program: its commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from graphsde._version import __version__
from graphsde.base.arguments import expected_in_words
from graphsde.base.errors import GraphsdeError, shorten
from graphsde.base.plugins import load_installed, load_plugins
from graphsde.base.suggestions import ELSEWHERE, called_here
from graphsde.base.terminal import guard_output, guarded_output, printable
from graphsde.cli import act, bench, decide, fit, measure, reproduce, show
from graphsde.cli.output import say, tell

VERBS: dict[str, Callable[..., None]] = {
    "demo": fit.demo,
    "check": show.check,
    "plan": decide.plan,
    "fit": fit.fit,
    "predict": act.predict,
    "evaluate": measure.evaluate,
    "calibrate": measure.calibrate,
    "decide": decide.decide,
    "ask": act.ask,
    "learn": act.learn,
    "explain": act.explain,
    "report": show.report,
    "app": show.page,
    "theory": measure.theory,
    "bench": bench.bench,
    "compare": bench.compare,
    "reproduce": reproduce.reproduce,
    "search": bench.search,
    "list": show.listing,
    "doctor": show.doctor,
}


def main() -> None:
    # the garbage collector would scan everything that torch and others allocate, over and over, while they are imported
    gc.set_threshold(20_000, 20, 50)
    guard_output()  # stays on: a traceback is printed after everything else has ended
    _yield_to_others()
    if "TORCHELASTIC_RUN_ID" in os.environ:
        from graphsde.runs.workers import run_under_torchrun, started_by_torchrun

        if started_by_torchrun():
            run_under_torchrun(app)
    app(prog_name="graphsde")  # as shells know it, also under python -m


# how long threads of torch (GNU OpenMP) and of numpy (OpenBLAS) spin before they sleep
SPIN_BRIEFLY = {"GOMP_SPINCOUNT": "1000", "OPENBLAS_THREAD_TIMEOUT": "4"}


def _yield_to_others() -> None:
    """Let threads that wait for each other sleep soon; torch and numpy read this when they are imported.

    By default they spin for long: on a machine whose cores are all busy, a fit takes many times as long.
    """
    policy = {"GOMP_SPINCOUNT"} if "OMP_WAIT_POLICY" in os.environ else set()
    for name in SPIN_BRIEFLY.keys() - policy:
        os.environ.setdefault(name, SPIN_BRIEFLY[name])


def _version(asked: bool) -> None:
    if asked:
        tell(f"graphsde {__version__}")
        raise typer.Exit()


def _guarded(verb: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(verb)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            _load_plugins()
            verb(*args, **kwargs)
        except GraphsdeError as error:
            _fail(str(error), error.exit_code)
        except KeyboardInterrupt:
            _fail("E-INTERRUPTED: interrupted by SIGINT (Ctrl-C).", 130)
        except MemoryError:
            _fail("E-MEM: not enough memory. Fix: use a smaller graph or a smaller hidden width.", 71)
        except BrokenPipeError:
            # the reader (head, less) closed the pipe; keep Python from complaining while it shuts down
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            _fail(f"E-IO: {shorten(str(error))}.", 74)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if os.environ.get("GRAPHSDE_DEBUG"):
                raise
            text = shorten(f"{type(error).__name__}: {error}", 400)
            fix = "this is a bug in graphsde; run again with GRAPHSDE_DEBUG=1 for the traceback"
            _fail(f"E-INTERNAL: {text}. Fix: {fix}.", 70)

    return run


def _load_plugins() -> None:
    load_plugins()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        load_installed()
    for warning in told:  # on one line, without the location in our code
        say(str(warning.message))


def _fail(message: str, code: int) -> None:
    say(message)
    raise typer.Exit(code)


class Program(TyperGroup):
    """The commands; everything printed while one runs is stripped of control characters."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        with guarded_output():
            return super().main(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _wrong_usage_in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _wrong_usage_in_one_line():
            return super().invoke(ctx)


@contextlib.contextmanager
def _wrong_usage_in_one_line() -> Iterator[None]:
    """The framework's own errors repeat the user's input, line breaks included."""
    try:
        yield
    except Exception as error:
        # the framework may bundle its own click or use the installed one: recognise errors by attributes, not class
        if hasattr(error, "format_message") and isinstance(getattr(error, "message", None), str):
            wrong, instead = error.message, expected_in_words(error.message)  # type: ignore[attr-defined]
            told = wrong if instead == wrong else f"{instead[0].upper()}{instead[1:]} is expected"
            error.message = printable(told + _option_meant(error))  # type: ignore[attr-defined]
        raise


def _option_meant(error: Any) -> str:
    """A hint for an unknown option: its name here, or that it is a setting of the model."""
    name = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
    options = [str(one.name) for one in getattr(getattr(error.ctx, "command", None), "params", [])] if name else []
    if here := called_here(name, options):
        return f". Use --{here[0].replace('_', '-')} instead."
    setting = next(iter([*called_here(name, ELSEWHERE), *[one for one in ELSEWHERE if one == name]]), None)
    return f". Model settings are passed with --set {setting}=VALUE." if setting and "settings" in options else ""


app = typer.Typer(
    cls=Program,
    name="graphsde",
    help="Node predictions on graphs, with uncertainty you can act on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None: ...


for _name, _verb in VERBS.items():
    app.command(_name)(_guarded(_verb))
