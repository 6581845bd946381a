"use strict";
(() => {
  const root = document.documentElement;
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)");

  // Plots: drawn when their tab is first open, since a hidden element has no width.
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const theme = (layout) => {
    const changes = {
      "font.color": colour("--ink"),
      "hoverlabel.bgcolor": colour("--panel"),
      "hoverlabel.bordercolor": colour("--muted"),
      "hoverlabel.font.color": colour("--ink"),
      "modebar.bgcolor": "rgba(0,0,0,0)",
      "modebar.color": colour("--muted"),
      "modebar.activecolor": colour("--accent"),
    };
    for (const axis of Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name))) {
      changes[axis + ".gridcolor"] = colour("--grid");
      changes[axis + ".linecolor"] = colour("--line");
      changes[axis + ".zerolinecolor"] = colour("--line");
      changes[axis + ".tickcolor"] = colour("--line");
    }
    return changes;
  };
  const draw = (canvas) => {
    const figure = JSON.parse(document.getElementById(canvas.dataset.figure).textContent);
    if (coarse.matches) figure.layout.dragmode = false; // so that a finger scrolls the page
    const config = {
      responsive: true, displaylogo: false, showSendToCloud: false,
      displayModeBar: coarse.matches ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    };
    const entries = figure.data.filter((trace) => trace.name && trace.showlegend !== false).length;
    if (canvas.clientWidth < 520 && entries > 2) { // there the legend has a line an entry
      canvas.style.height = canvas.clientHeight + 19 * (entries - 2) + "px";
    }
    canvas.dataset.drawn = "yes";
    for (const [path, value] of Object.entries(theme(figure.layout))) {
      const names = path.split(".");
      const last = names.pop();
      names.reduce((part, name) => (part[name] ??= {}), figure.layout)[last] = value;
    }
    return Plotly.newPlot(canvas, figure.data, figure.layout, config);
  };
  const drawn = () => [...document.querySelectorAll(".canvas[data-drawn]")];
  const drawIn = (element) => {
    [...element.querySelectorAll(".canvas:not([data-drawn])")].filter((canvas) => canvas.clientWidth).forEach(draw);
    for (const canvas of element.querySelectorAll(".canvas[data-drawn]")) {
      if (canvas._fullLayout && canvas._fullLayout.width !== canvas.clientWidth) Plotly.Plots.resize(canvas);
    }
  };
  const repaint = () => drawn().forEach((canvas) => Plotly.relayout(canvas, theme(canvas.layout)));

  // Tabs.
  const open = (index, focus) => {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === index));
      tab.tabIndex = i === index ? 0 : -1;
      panels[i].classList.toggle("open", i === index);
    });
    if (focus) tabs[index].focus();
    drawIn(panels[index]);
  };
  const fromAddress = () => Math.max(0, panels.findIndex((panel) => "#" + panel.id === decodeURIComponent(location.hash)));
  const go = (index, focus) => {
    history.replaceState(null, "", "#" + panels[index].id);
    open(index, focus);
  };
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", (event) => { event.preventDefault(); go(index, true); });
    tab.addEventListener("keydown", (event) => {
      const last = tabs.length - 1;
      const next = {
        ArrowRight: index === last ? 0 : index + 1, ArrowLeft: index === 0 ? last : index - 1, Home: 0, End: last,
        " ": index, Enter: index,
      }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      go(next, true);
    });
  });
  panels.forEach((panel) => { panel.tabIndex = 0; });
  addEventListener("hashchange", () => open(fromAddress(), false));
  root.classList.add("tabbed");

  // Light and dark: the system's choice until the button says otherwise.
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
  };
  try { if (root.dataset.refresh && sessionStorage.theme) root.dataset.theme = sessionStorage.theme; } catch { /* none */ }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
    repaint();
  });
  dark.addEventListener("change", () => { label(); repaint(); });
  label();

  // Groups of which one is seen at a time.
  const choices = [...document.querySelectorAll(".choice")];
  const choose = (choice) => {
    const chosen = Number(choice.querySelector("select").value);
    choice.querySelectorAll(".group").forEach((group, i) => group.classList.toggle("open", i === chosen));
    drawIn(choice);
  };
  choices.forEach((choice) => {
    choice.querySelector("select").addEventListener("change", () => choose(choice));
    choose(choice);
  });

  // A table or a program that is wider than the screen says so, until it is scrolled to its end.
  const cue = (box) => {
    box.classList.toggle("wider", box.scrollWidth > box.clientWidth + 1);
    box.classList.toggle("ended", box.scrollLeft + box.clientWidth >= box.scrollWidth - 1);
  };
  const seen = new ResizeObserver((entries) => entries.forEach((entry) => cue(entry.target)));
  document.querySelectorAll(".scroll, pre").forEach((box) => {
    box.addEventListener("scroll", () => cue(box), { passive: true });
    seen.observe(box);
  });

  // Printing shows every section, on white.
  let before = null;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme ?? "";
    root.dataset.theme = "light";
    panels.forEach((panel) => panel.classList.add("open"));
    document.querySelectorAll(".group").forEach((group) => group.classList.add("open"));
    panels.forEach(drawIn);
    repaint();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    choices.forEach(choose);
    open(fromAddress(), false);
    repaint();
  });

  // Tables: a click on a heading sorts by it, numbers as numbers.
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent;
    const number = /^−?[\d,]+(\.\d+)?(e−?\d+)?$/.test(text) ? Number(text.replaceAll(",", "").replaceAll("−", "-")) : NaN;
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b);
  };
  document.querySelectorAll(".sort").forEach((button) => button.addEventListener("click", () => {
    const head = button.closest("th");
    const table = head.closest("table");
    const up = head.getAttribute("aria-sort") !== "ascending";
    table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const shown = rows.filter((row) => !row.classList.contains("more")).length;
    rows.sort((a, b) => (up ? 1 : -1) * compare(value(a, head.cellIndex), value(b, head.cellIndex)));
    rows.forEach((row, i) => { row.classList.toggle("more", i >= shown); body.append(row); });
  }));
  document.querySelectorAll(".unfold").forEach((button) => button.addEventListener("click", () => {
    const folded = button.closest("figure").querySelector("table").classList.toggle("folded");
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? button.dataset.more : button.dataset.less;
  }));

  // Copying: by the clipboard where the browser allows it, otherwise the text is selected.
  document.querySelectorAll(".copy").forEach((button) => button.addEventListener("click", async () => {
    const code = button.closest("figure").querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));

  open(fromAddress(), false);

  // A live page: loaded again with the tab and the colours that are open.
  if (root.dataset.refresh) setTimeout(() => {
    try { sessionStorage.theme = root.dataset.theme ?? ""; } catch { /* not kept */ }
    location.reload();
  }, 1000 * root.dataset.refresh);
})();
