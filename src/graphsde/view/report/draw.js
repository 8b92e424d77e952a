"use strict";
(function () {
  const LIGHT = { ink: "#3f4650", grid: "#e6e9ed", line: "#b9c0c9", box: "#ffffff", swap: {} };
  // on dark paper the deep blue of the palette gives way to its light blue
  const DARK = { ink: "#c3c9d1", grid: "#2a3037", line: "#59616c", box: "#1c2026", swap: { "#0072B2": "#56B4E9" } };
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

  function draw(theme, width) {
    for (const plot of plots) {
      const figure = JSON.parse(document.getElementById(plot.dataset.figure).textContent);
      const layout = coloured(figure.layout, theme);
      if (width) {
        layout.width = width;
        layout.autosize = false;
      }
      Plotly.react(plot, figure.data.map((trace) => recolour(trace, theme)), layout, { displayModeBar: false, responsive: true });
    }
  }

  function onScreen() {
    draw(dark.matches ? DARK : LIGHT, null);
  }

  dark.addEventListener("change", onScreen);
  window.addEventListener("beforeprint", function () { draw(LIGHT, PRINT_WIDTH); });
  window.addEventListener("afterprint", onScreen);
  onScreen();
})();
