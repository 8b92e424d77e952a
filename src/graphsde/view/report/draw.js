"use strict";
(function () {
  const LIGHT = { ink: "#3f4650", grid: "#e6e9ed", line: "#b9c0c9", box: "#ffffff", swap: {} };
  // on dark paper the deep blue of the palette gives way to its light blue
  const DARK = { ink: "#c3c9d1", grid: "#2a3037", line: "#59616c", box: "#1c2026", swap: { "#0072B2": "#56B4E9", "#882255": "#C4527F", "#7B2FD6": "#A87BF0" } };
  const PRINT_WIDTH = 660;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const plots = Array.from(document.querySelectorAll(".plot[data-figure]"));

  function coloured(layout, theme) {
    const copy = Object.assign({}, layout);
    copy.font = Object.assign({}, layout.font, { color: theme.ink });
    copy.hoverlabel = { bgcolor: theme.box, bordercolor: theme.line, font: { color: theme.ink } };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        copy[key] = Object.assign({}, layout[key], { gridcolor: theme.grid, linecolor: theme.line });
      }
    }
    return copy;
  }

  function recolour(trace, theme) {
    for (const part of [trace.marker, trace.line]) {
      if (part && part.color in theme.swap) {
        part.color = theme.swap[part.color];
      }
    }
    return trace;
  }

  function draw(theme, width, wanted) {
    for (const plot of wanted) {
      const figure = JSON.parse(document.getElementById(plot.dataset.figure).textContent);
      const layout = coloured(figure.layout, theme);
      if (width) {
        layout.width = width;
        layout.autosize = false;
      }
      Plotly.react(plot, figure.data.map((trace) => recolour(trace, theme)), layout, { displayModeBar: false, responsive: true });
    }
  }

  // what is folded has no width yet: it is drawn when it is opened
  function onScreen() {
    draw(dark.matches ? DARK : LIGHT, null, plots.filter((plot) => plot.offsetParent !== null));
  }

  const folds = Array.from(document.querySelectorAll("details"));
  const sections = folds.filter((fold) => fold.classList.contains("fold"));
  const button = document.getElementById("unfold");

  function unfoldTarget() {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    } catch (error) {
      return;
    }
    const fold = target && (target.querySelector(":scope > details.fold") || target.closest("details.fold"));
    if (fold) {
      fold.open = true;
      target.scrollIntoView();
    }
  }

  for (const fold of folds) {
    fold.addEventListener("toggle", function () {
      draw(dark.matches ? DARK : LIGHT, null, plots.filter((plot) => fold.contains(plot) && plot.offsetParent !== null));
      if (button) {
        button.textContent = sections.every((one) => one.open) ? "Close all" : "Open all";
      }
    });
  }
  if (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      const open = !sections.every((one) => one.open);
      sections.forEach((one) => { one.open = open; });
    });
  }

  let closed = [];
  dark.addEventListener("change", onScreen);
  window.addEventListener("hashchange", unfoldTarget);
  window.addEventListener("beforeprint", function () {
    closed = folds.filter((fold) => !fold.open);
    closed.forEach((fold) => { fold.open = true; });
    draw(LIGHT, PRINT_WIDTH, plots);
  });
  window.addEventListener("afterprint", function () {
    closed.forEach((fold) => { fold.open = false; });
    onScreen();
  });
  onScreen();
  unfoldTarget();
})();
