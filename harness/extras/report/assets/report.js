"use strict";
// Pages lie in <template>s until the address after '#' names them. Plots are drawn when their page is shown.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  const overview = main.querySelector("article");
  const pages = new Map([["/", overview]]);
  const records = new Map();
  for (const page of document.querySelectorAll("template[data-page]")) {
    pages.set(page.dataset.page, page);
    if (page.dataset.record) records.set(page.dataset.record, page.dataset.page);
  }
  const order = [...pages.keys()];
  let shown = "/";
  const views = new Map();

  const say = (text) => { document.getElementById("said").textContent = text; };
  const make = (tag, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  };
  const link = (page, text) => make("a", { href: `#${page}` }, text);
  const level = (page) => (page === "/" ? 0 : page.split("/").length === 2 ? 1 : 2);
  const above = (page) => (level(page) === 2 ? `/${page.split("/")[1]}` : "/");
  const siblings = (page) => order.filter((each) => level(each) === level(page) && above(each) === above(page));

  // Pages

  function wanted() {
    let address = location.hash.slice(1) || "/";
    try { address = decodeURIComponent(address); } catch { /* then no page has this address */ }
    const record = address.match(/^\/record\/([0-9a-f]+)$/);
    return record ? records.get(record[1]) ?? address : address;
  }

  function show(first) {
    if (location.hash === "#main") return main.focus();
    shown = wanted();
    for (const view of views.values()) view.finalize();
    views.clear();
    const page = pages.get(shown);
    if (page === undefined) {
      main.replaceChildren(make("article", {}, make("h1", {}, "No such page"),
        make("p", {}, "This report has no page at ", make("code", {}, shown), ". ", link("/", "Overview"))));
    } else if (page === overview) {
      main.replaceChildren(overview);
    } else {
      main.replaceChildren(make("article", {}, page.content.cloneNode(true)));
    }
    const article = main.firstElementChild;
    trail(page);
    if (level(shown) && page) around(article);
    if (!article.dataset.ready) {
      article.dataset.ready = "yes";
      for (const table of article.querySelectorAll("table.sortable")) sortable(table);
      for (const finder of article.querySelectorAll(".finder")) filterable(finder);
      for (const choices of article.querySelectorAll(".choices")) choosable(choices);
      for (const details of article.querySelectorAll("details[data-fill]")) unfoldable(details);
      for (const command of article.querySelectorAll(".copy")) copyable(command);
    }
    for (const place of article.querySelectorAll(".plot")) plot(place);
    document.title = `${page ? page.dataset.title : "No such page"} · tilebench`;
    if (!first) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
  }

  function trail(page) {
    const steps = [];
    if (level(shown)) steps.push(make("li", {}, link("/", "Overview")));
    if (level(shown) === 2) steps.push(make("li", {}, link(above(shown), above(shown).slice(1))));
    const here = make("li", {}, page ? page.dataset.title : "No such page");
    here.setAttribute("aria-current", "page");
    document.getElementById("trail").replaceChildren(...steps, here);
  }

  function around(article) {
    const [before, after] = neighbours();
    const nav = make("nav", { className: "around" });
    nav.setAttribute("aria-label", "Neighbours");
    nav.append(before ? link(before, `← ${pages.get(before).dataset.title}`) : make("span"));
    nav.append(after ? link(after, `${pages.get(after).dataset.title} →`) : make("span"));
    article.append(nav);
  }

  function neighbours() {
    const all = siblings(shown);
    const at = all.indexOf(shown);
    return [all[at - 1], at < 0 ? undefined : all[at + 1]];
  }

  // Tables

  const cellOf = (row, column) => row.cells[column];
  const textOf = (cell) => cell.dataset.value ?? cell.textContent.trim();

  function sortable(table) {
    table.tHead.addEventListener("click", (event) => {
      const button = event.target.closest("button.sort");
      if (!button) return;
      const heading = button.closest("th");
      const numeric = "numeric" in button.dataset;
      const before = heading.getAttribute("aria-sort");
      const descending = before ? before === "ascending" : false;
      for (const each of table.tHead.querySelectorAll("[aria-sort]")) each.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [textOf(cellOf(row, heading.cellIndex)), row]);
      rows.sort(([one], [other]) => {
        if (one === "" || other === "") return (one === "") - (other === ""); // rows without a figure stay below
        const order = numeric ? one - other : one.localeCompare(other);
        return descending ? -order : order;
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
      say(`Sorted by ${button.textContent}, ${descending ? "descending" : "ascending"}`);
    });
  }

  function filterable(finder) {
    const input = finder.querySelector("input");
    const rows = [...finder.nextElementSibling.querySelectorAll("tbody > tr")];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      rows.forEach((row, at) => {
        row.hidden = !words.every((word) => texts[at].includes(word));
        left += !row.hidden;
      });
      finder.querySelector("output").textContent = words.length ? `${left} of ${rows.length}` : "";
    });
  }

  function copyable(button) {
    button.addEventListener("click", async () => {
      const code = button.previousElementSibling;
      try {
        await navigator.clipboard.writeText(code.textContent);
        say("Copied");
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      } catch {
        getSelection().selectAllChildren(code);
        say("Selected; copy it with the keyboard");
      }
    });
  }

  // Plots

  const narrow = matchMedia("(max-width: 50rem)");
  const drawings = {
    forest: () => [data.specs[`forest-${narrow.matches ? "narrow" : "wide"}`], { rows: data.forest }],
    ladder: (place) => {
      const figure = place.dataset.figure ?? "ratio";
      const rows = data.ladders[place.dataset.of];
      const baseline = figure === "ratio" ? 1 : Number(place.dataset.baseline);
      const lowest = place.dataset.range === "top" ? 0.95 * baseline : null;
      const spec = data.specs[`ladder-${figure}`];
      const layer = spec.layer.filter((each) => !each.name || rows.some((row) => row.outcome === each.name));
      return [{ ...spec, layer }, { rows, baseline: [{ at: baseline }] }, { lowest }];
    },
    roofline: (place) => [data.specs.roofline, data.rooflines[place.dataset.of]],
    chip: (place) => [data.specs.chip, { rows: data.chip[place.dataset.of].map(moment) }],
    blocks: (place) => [data.specs.blocks, { rows: data.blocks[place.dataset.of].map(round) }],
  };

  const moment = ([seconds, sm_clock_mhz, power_w]) => ({ seconds, sm_clock_mhz, power_w });

  function round([placement, baseline_ms, contestant_ms], at, all) {
    const first = at > 0 && all[at - 1][0] !== placement;
    return { round: at + 1, placement, baseline_ms, contestant_ms, ratio: baseline_ms / contestant_ms, edge: at + 0.5, first };
  }

  narrow.addEventListener("change", () => main.querySelectorAll("[data-plot=forest]").forEach(plot));

  // One after another: of two drawings at a time the older might end last.
  const drawing = new WeakMap();
  function plot(place) {
    drawing.set(place, (drawing.get(place) ?? Promise.resolve()).then(() => place.isConnected && draw(place)));
  }

  async function draw(place) {
    const [spec, datasets, parameters = {}] = drawings[place.dataset.plot](place);
    const params = (spec.params ?? []).map((each) => ({ ...each, value: parameters[each.name] ?? each.value }));
    const drawn = await vegaEmbed(place, { ...spec, datasets, params }, {
      ast: true, // the page's policy forbids evaluating text
      renderer: "svg",
      actions: false,
      defaultStyle: false,
      tooltip: { disableDefaultStyle: true, theme: "own" },
    });
    views.get(place)?.finalize();
    if (!place.isConnected) return drawn.finalize();
    views.set(place, drawn);
    drawn.view.addEventListener("click", (_, item) => {
      const page = item?.datum?.page;
      if (page !== undefined && page !== shown) location.hash = page;
    });
  }

  // A group of choices redraws the plot that follows it.
  function choosable(choices) {
    const place = choices.nextElementSibling;
    choices.addEventListener("change", ({ target }) => {
      place.dataset[target.dataset.sets] = target.value;
      plot(place);
    });
  }

  // Hundreds of rows that few people read: made when the details open.
  const tables = {
    blocks: (of) => data.blocks[of].map(round).map((each) =>
      [each.round, each.placement, each.baseline_ms, each.contestant_ms, each.ratio.toFixed(5)]),
    metrics: (of) => data.metrics.values[of].map(([at, value, unit]) => {
      const [name, tells] = data.metrics.names[at];
      return [name, value, unit, tells];
    }),
  };
  function fill(details) {
    const body = details.querySelector("tbody");
    const headings = details.querySelectorAll("thead th");
    if (body.rows.length) return;
    for (const row of tables[details.dataset.fill](details.dataset.of)) {
      body.append(make("tr", {}, ...row.map((cell, at) => make("td", { className: headings[at].className }, cell))));
    }
  }
  const unfoldable = (details) => details.addEventListener("toggle", () => details.open && fill(details));

  // Theme, keys

  const themes = ["auto", "light", "dark"];
  const themeButton = document.getElementById("theme");
  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    themeButton.textContent = `Theme: ${theme}`;
    try { localStorage.setItem("tilebench-theme", theme); } catch { /* a browser may refuse storage; the page still works */ }
  }
  function nextTheme() {
    setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]);
  }
  let kept = null;
  try { kept = localStorage.getItem("tilebench-theme"); } catch { /* as above */ }
  setTheme(themes.includes(kept) ? kept : "auto");

  const help = document.getElementById("help");
  const go = (page) => { if (page !== undefined) location.hash = page; };
  const keys = {
    "/": () => main.querySelector(".finder input")?.focus(),
    n: () => go(neighbours()[1]),
    p: () => go(neighbours()[0]),
    u: () => go(above(shown)),
    t: nextTheme,
    "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  addEventListener("beforeprint", () => {
    for (const details of main.querySelectorAll("details")) {
      if (details.dataset.fill) fill(details);
      details.open = true;
    }
  });
  themeButton.addEventListener("click", nextTheme);
  document.getElementById("keys").addEventListener("click", keys["?"]);
  addEventListener("hashchange", () => show(false));
  show(true);
})();
