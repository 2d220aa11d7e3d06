// The panel beside the network: findings, a column or a pair, what-if questions, and rows of the data.
// The state of the view is in the address, so that reloading and sharing keep it.
"use strict";
(() => {
  const view = find("view"),
    server = data.server;
  const question = {
    tab: "column",
    set: {},
    method: server?.method ?? "auto",
    table: server?.tables[0]?.[0] ?? "",
    row: -1,
    filter: "",
  };
  let turn = 0,
    answer = null;

  function make(tag, options = {}, ...children) {
    const part = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (name === "class") part.className = value;
      else if (name.startsWith("on")) part.addEventListener(name.slice(2), value);
      else if (value === true) part.setAttribute(name, "");
      else if (value !== false && value !== undefined) part.setAttribute(name, value);
    }
    part.append(...children.filter((child) => child !== null && child !== undefined));
    return part;
  }
  const button = (words, click, kind = "plain small", label) =>
    make("button", { type: "button", class: kind, onclick: click, "aria-label": label }, words);
  const goTo = (k) =>
    button(
      data.titles[k],
      () => {
        show("column");
        net.choose(k);
      },
      "plain go",
    );
  const signed = (weight) => (weight > 0 ? "+" : "\u2212") + Math.abs(weight).toFixed(Math.abs(weight) < 0.01 ? 4 : 2);
  const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)}%`;
  const pixels = (part, side, value) => {
    part.style[side] = value;
    return part;
  };

  // -- a column, a pair, or the start ----------------------------------------------------------------------------------

  function featureLine(e, feature) {
    const term = (k, state) => (state === null ? data.names[k] : `${data.names[k]} = ${state}`);
    const words = feature[3] ? feature[0] : `${term(data.a[e], feature[0])}  &  ${term(data.b[e], feature[1])}`;
    return make(
      "li",
      { class: feature[2] > 0 ? "plus" : "minus" },
      make("b", {}, signed(feature[2])),
      make("span", {}, words),
    );
  }

  const strengthBar = (e) =>
    pixels(
      make("span", {
        class: "strength fill " + ["minus", "neutral", "plus"][data.sign[e] + 1],
        title: `strength ${data.s[e]}`,
      }),
      "width",
      `${Math.max(2, (72 * data.s[e]) / net.largest)}px`,
    );
  const edgeLine = (_, e) =>
    make(
      "div",
      { class: "row" },
      button(`${data.titles[data.a[e]]} \u2013 ${data.titles[data.b[e]]}`, () => net.chooseEdge(e), "plain go"),
      strengthBar(e),
    );

  function edgeBlock(e, from) {
    const head = make(
      "div",
      { class: "head" },
      goTo(net.otherEnd(e, from)),
      data.t[e] >= 0 ? make("span", { class: "over" }, data.templates[data.t[e]]) : null,
      button(
        "pair",
        () => net.chooseEdge(e),
        "plain small",
        `The pair ${data.names[data.a[e]]} and ${data.names[data.b[e]]}`,
      ),
      strengthBar(e),
    );
    return make(
      "div",
      { class: "neighbor" },
      head,
      make("ul", {}, ...data.f[e].slice(0, 4).map((feature) => featureLine(e, feature))),
    );
  }

  function stateBars(states, shares) {
    const grid = make("div", { class: "states" });
    states.forEach((state, k) =>
      grid.append(
        make("span", { class: "state" }, state),
        bar(shares[k]),
        make("span", { class: "number" }, percent(shares[k])),
      ),
    );
    return grid;
  }
  const bar = (share) =>
    make("span", { class: "bar" }, pixels(make("i", { class: "base up" }), "width", `${100 * share}%`));

  function columnView(k) {
    const edges = net.edgesOf[k],
      bars = data.bars[k],
      parts = [];
    const group = data.groups[data.group[k]];
    parts.push(make("h3", {}, data.names[k]), make("p", { class: "soft" }, data.about[k]));
    parts.push(
      make(
        "p",
        { class: "soft" },
        [
          group,
          edges.length === 1 ? "1 edge" : `${edges.length} edges`,
          data.ring[k] !== null ? `predictability ${data.ring[k].toFixed(2)}` : null,
        ]
          .filter(Boolean)
          .join("; "),
      ),
    );
    if (server?.columns[data.names[k]] !== undefined)
      parts.push(
        make(
          "div",
          { class: "row" },
          button("What if \u2026", () => {
            question.set[data.names[k]] ??= "";
            show("evidence");
          }),
        ),
      );
    if (bars.length)
      parts.push(
        stateBars(
          bars.map((part) => part[0]),
          bars.map((part) => part[1]),
        ),
      );
    parts.push(make("h4", {}, "Neighbors, strongest first"), ...edges.slice(0, 100).map((e) => edgeBlock(e, k)));
    if (edges.length > 100) parts.push(make("p", { class: "soft" }, `and ${edges.length - 100} weaker edges`));
    return parts;
  }

  // The color is the log of the rows with a pair of states over those that independent columns would have.
  function heatMap(pair, expected) {
    const head = make("tr", {}, make("th", {}), ...pair.states[1].map((state) => make("th", { scope: "col" }, state)));
    const rows = pair.states[0].map((state, i) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, state),
        ...pair.counts[i].map((count, j) => {
          const cell = make("td", {}, `${count}`),
            value = Math.log((count + 0.5) / (expected[i][j] + 0.5));
          cell.style.background = `color-mix(in srgb, var(--${value > 0 ? "positive" : "negative"}) ${Math.round(55 * Math.min(Math.abs(value), 1))}%, var(--card))`;
          return cell;
        }),
      ),
    );
    return make("div", { class: "heat" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  }

  function pairView(e) {
    const [a, b] = [data.a[e], data.b[e]],
      pair = data.pairs[e],
      parts = [];
    parts.push(make("div", { class: "row" }, goTo(a), "and", goTo(b)));
    parts.push(
      make(
        "p",
        { class: "soft" },
        `${["negative edge", "edge without a sign", "positive edge"][data.sign[e] + 1]}, strength ${data.s[e]}` +
          (data.t[e] >= 0 ? `; ${data.templates[data.t[e]]}` : ""),
      ),
    );
    if (pair) {
      const sum = (list) => list.reduce((p, q) => p + q, 0),
        all = sum(pair.counts.map(sum));
      const across = pair.states[1].map((_, j) => sum(pair.counts.map((row) => row[j])));
      const expected = pair.counts.map((row) => across.map((count) => (sum(row) * count) / Math.max(all, 1)));
      parts.push(
        make("h4", {}, `Rows of the data (down: ${data.names[a]}; across: ${data.names[b]})`),
        heatMap(pair, expected),
        make("p", { class: "soft small" }, "Blue: more rows than independent columns would have; orange: fewer."),
      );
    }
    const linear = data.f[e].filter((f) => !f[3] && f[0] === null && f[1] === null).length;
    for (const [title, features] of [
      [linear ? "Linear weight, given all other columns" : "Weights, given all other columns", data.f[e].slice(0, linear || 99)],
      ["Beyond that", linear ? data.f[e].slice(linear) : []],
    ])
      if (features.length)
        parts.push(
          make("h4", {}, title),
          make("div", { class: "neighbor" }, make("ul", {}, ...features.map((feature) => featureLine(e, feature)))),
        );
    if (data.more[e]) parts.push(make("p", { class: "soft" }, `and ${data.more[e]} weaker features`));
    return parts;
  }

  function startView() {
    const title = net.state.group >= 0 ? data.groups[net.state.group] : null;
    const members = net.byWeight.filter((k) => title === null || data.group[k] === net.state.group);
    return [
      title ? make("h3", {}, title) : null,
      ...(title || !data.s.length ? [] : [make("h4", {}, "Strongest edges"), ...data.s.slice(0, Math.min(12, data.holding || 12)).map(edgeLine)]),
      make("h4", {}, title ? "Its columns, strongest first" : "Columns with the strongest edges"),
      make("div", { class: "chips" }, ...members.slice(0, title ? 100 : 10).map(goTo)),
      make(
        "p",
        { class: "soft" },
        "Click a column or an edge. Drag to move, scroll or pinch to zoom; the arrow keys go from column to column." +
          (data.alone ? ` ${data.alone.toLocaleString("en")} columns are not in the picture.` : "") +
          (server ? "" : " \u201csparsefield explore MODEL DATA\u201d serves this page with questions and rows."),
      ),
    ];
  }

  // -- what if ---------------------------------------------------------------------------------------------------------

  async function ask(name, body) {
    const own = ++turn;
    view.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(`api/${name}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ method: question.method, table: question.table, ...body }),
      });
      const found = await response.json();
      return own === turn
        ? { ...found, ...(response.ok || found.error ? {} : { error: "The server refused this." }) }
        : null;
    } catch {
      return { error: "The server does not answer: is \u201csparsefield explore\u201d still running?" };
    } finally {
      if (own === turn) view.removeAttribute("aria-busy");
    }
  }
  const given = () => Object.fromEntries(Object.entries(question.set).filter(([, text]) => text !== ""));

  function setter(name) {
    const states = server.columns[name];
    const input = states
      ? make(
          "select",
          { "aria-label": `Value of ${name}`, class: "fill-rest" },
          make("option", { value: "" }, "choose \u2026"),
          ...states.map((state) => make("option", { value: state, selected: question.set[name] === state }, state)),
        )
      : make("input", {
          type: "text",
          "aria-label": `Value of ${name}`,
          class: "fill-rest",
          value: question.set[name],
          placeholder: "number or date",
        });
    input.addEventListener("change", () => {
      question.set[name] = input.value;
      refresh();
    });
    return make(
      "div",
      { class: "row" },
      make("b", { class: "fill-rest" }, name),
      input,
      button(
        "\u00d7",
        () => {
          delete question.set[name];
          refresh();
        },
        "plain small",
        `Remove ${name}`,
      ),
    );
  }

  function methodChoice() {
    const choice = make(
      "select",
      { "aria-label": "Inference" },
      ...server.methods.map(([method, name]) =>
        make("option", { value: method, selected: method === question.method }, name),
      ),
    );
    choice.addEventListener("change", () => {
      question.method = choice.value;
      refresh();
    });
    return make("label", { class: "row soft" }, "Inference", choice);
  }

  function evidenceView() {
    const columns = Object.keys(server.columns);
    const names = make(
      "datalist",
      { id: "settable" },
      ...columns.slice(0, 2000).map((name) => make("option", { value: name })),
    );
    const add = make("input", {
      type: "search",
      id: "add",
      list: "settable",
      placeholder: "Set a column \u2026",
      "aria-label": "Set a column",
      class: "fill-rest",
    });
    add.addEventListener("input", () => {
      if (columns.includes(add.value)) {
        question.set[add.value] ??= "";
        add.value = "";
        refresh();
      }
    });
    const parts = [
      make(
        "div",
        { class: "row" },
        add,
        button("Clear", () => {
          question.set = {};
          refresh();
        }),
      ),
      names,
      ...Object.keys(question.set).map(setter),
    ];
    parts.push(methodChoice());
    if (answer?.error) parts.push(make("p", { class: "warn", role: "alert" }, answer.error));
    if (answer?.changes) parts.push(...beliefViews());
    return parts;
  }

  function beliefViews() {
    const some = Object.keys(given()).length > 0,
      filter = make("input", {
        type: "search",
        value: question.filter,
        placeholder: "filter by name",
        "aria-label": "Filter beliefs by name",
      });
    filter.addEventListener("change", () => {
      question.filter = filter.value;
      refresh();
    });
    return [
      make(
        "div",
        { class: "row" },
        make("h4", { class: "fill-rest" }, some ? "Beliefs before \u2192 after, largest changes first" : "Beliefs"),
        filter,
      ),
      make(
        "p",
        { class: "soft small" },
        (answer.method ? `By ${answer.method}. ` : "") +
          (answer.rows !== null && answer.rows !== undefined
            ? `${answer.rows.toLocaleString("en")} rows of the data agree with the evidence; their shares are on the right and as black ticks. `
            : "") +
          (some
            ? "In the network, blue columns become more likely or higher, orange ones less; black ones are set."
            : ""),
      ),
      ...answer.warnings.map((line) => make("p", { class: "warn" }, line)),
      ...answer.changes.map((change) => changeView(change, some)),
      answer.total > answer.changes.length
        ? make(
            "p",
            { class: "soft" },
            `and ${(answer.total - answer.changes.length).toLocaleString("en")} more columns`,
          )
        : null,
    ];
  }

  function changeView(change, some) {
    const grid = make("div", { class: "states change" }),
      all = change.counts ? change.counts.reduce((p, q) => p + q, 0) : 0;
    const order = change.states.map((_, k) => k);
    const shown =
      change.states.length === 2 && change.states[0] === "0"
        ? [1]
        : order.length > 8
          ? order.sort((p, q) => change.after[q] - change.after[p]).slice(0, 6)
          : order;
    for (const k of shown) {
      const [before, after] = [change.before[k], change.after[k]],
        track = make("span", { class: "bar" });
      track.append(pixels(make("i", { class: "base" }), "width", `${100 * Math.min(before, after)}%`));
      if (some)
        track.append(
          pixels(
            pixels(make("i", { class: after > before ? "up" : "down" }), "left", `${100 * Math.min(before, after)}%`),
            "width",
            `${100 * Math.abs(after - before)}%`,
          ),
        );
      if (all) track.append(pixels(make("i", { class: "tick" }), "left", `${(100 * change.counts[k]) / all}%`));
      grid.append(
        make("span", { class: "state" }, change.states[k]),
        track,
        make("span", { class: "number" }, some ? `${percent(before)} \u2192 ${percent(after)}` : percent(after)),
        make("span", { class: "number soft" }, all ? percent(change.counts[k] / all) : ""),
      );
    }
    const k = net.numberOf.get(change.label),
      mean = change.means ? ` mean ${change.means.map((value) => Number(value.toPrecision(4))).join(" \u2192 ")}` : "";
    return make(
      "div",
      { class: "neighbor" },
      make(
        "div",
        { class: "head" },
        k === undefined ? make("b", {}, change.label) : goTo(k),
        make("span", { class: "over" }, mean),
      ),
      grid,
    );
  }

  // -- rows ------------------------------------------------------------------------------------------------------------

  function rowChoice() {
    const tables = make(
      "select",
      { "aria-label": "Table" },
      ...server.tables.map(([name]) =>
        make("option", { value: name, selected: name === question.table }, name || "table"),
      ),
    );
    tables.addEventListener("change", () => {
      Object.assign(question, { table: tables.value, row: -1, set: {} });
      refresh();
    });
    const search = make("input", {
        type: "search",
        id: "row-search",
        placeholder: "row number or name",
        "aria-label": "Find a row",
        class: "fill-rest",
      }),
      hits = make("div", { class: "chips" });
    const look = async () => {
      const found = await ask("rows", { text: search.value });
      if (found?.rows)
        hits.replaceChildren(
          ...found.rows.slice(0, 12).map((hit) =>
            button(hit.name, () => {
              question.row = hit.row;
              refresh();
            }),
          ),
        );
    };
    search.addEventListener("change", look);
    const step = (by) => () => {
      const most = server.tables.find(([name]) => name === question.table)[1];
      question.row = (Math.max(question.row, by > 0 ? -1 : 0) + by + most) % most;
      refresh();
    };
    return make(
      "div",
      {},
      make(
        "div",
        { class: "row" },
        server.tables.length > 1 ? tables : null,
        search,
        button("\u2190", step(-1), "plain small", "Previous row"),
        make("span", { class: "number" }, question.row >= 0 ? `row ${question.row + 1}` : ""),
        button("\u2192", step(1), "plain small", "Next row"),
      ),
      hits,
    );
  }

  function rowsView() {
    if (!server.tables.length)
      return [
        make("p", { class: "absent" }, "No data: open the page with \u201csparsefield explore MODEL DATA\u201d."),
      ];
    const parts = [rowChoice(), methodChoice()];
    if (answer?.error) parts.push(make("p", { class: "warn", role: "alert" }, answer.error));
    if (answer?.values) {
      parts.push(make("h3", {}, answer.name), ...answer.warnings.map((line) => make("p", { class: "warn" }, line)));
      if (!server.linked)
        parts.push(
          button("Use as evidence", () => {
            question.set = Object.fromEntries(answer.values.map((value) => [value.name, value.value]));
            show("evidence");
          }),
        );
      if (answer.missing.length) parts.push(make("h4", {}, "Missing values"));
      for (const cell of answer.missing) {
        parts.push(
          make(
            "div",
            { class: "neighbor" },
            make(
              "div",
              { class: "head" },
              make("b", { class: "fill-rest" }, cell.name),
              make("span", { class: "over" }, cell.text || cell.best),
            ),
            stateBars(cell.states, cell.belief),
          ),
        );
      }
      parts.push(make("h4", {}, "Values, most surprising first"));
      const list = make("ul", { class: "plainlist" });
      for (const cell of answer.values) {
        list.append(
          make(
            "li",
            { class: "row" },
            make("b", { class: "fill-rest" }, cell.name),
            make("span", { class: cell.surprising ? "unexpected" : "" }, cell.value),
            make("span", { class: "soft small" }, `${percent(cell.probability)}; expected ${cell.expected}`),
          ),
        );
      }
      parts.push(list);
      if (answer.reasons?.length)
        parts.push(
          make("h4", {}, "What linked rows say"),
          make("ul", { class: "plainlist" }, ...answer.reasons.map((line) => make("li", {}, line))),
        );
      for (const link of answer.linked ?? []) {
        parts.push(
          make("h4", {}, `Linked: ${link.title}`),
          ...link.rows.map(([table, row, name, text]) => {
            const go = button(name, () => {
              Object.assign(question, { table, row, set: {} });
              refresh();
            });
            return make("div", { class: "row" }, go, make("span", { class: "soft small fill-rest" }, text));
          }),
          link.more ? make("p", { class: "soft" }, `and ${link.more.toLocaleString("en")} more rows`) : "",
        );
      }
      for (const [title, cells] of [
        ["Covariates", answer.covariates],
        ["Values that did not occur in training", answer.unknown],
      ]) {
        if (cells.length)
          parts.push(
            make("h4", {}, title),
            make("p", { class: "soft" }, cells.map((cell) => `${cell.name} = ${cell.value}`).join(", ")),
          );
      }
    }
    return parts;
  }

  // -- the whole ---------------------------------------------------------------------------------------------------------

  function render() {
    for (const tab of document.querySelectorAll("[data-tab]")) {
      tab.setAttribute("aria-selected", String(tab.dataset.tab === question.tab));
      if (tab.dataset.tab === "column")
        tab.textContent = net.state.edge >= 0 ? "Pair" : net.state.chosen >= 0 ? "Column" : "Overview";
    }
    const focused = view.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    const parts =
      question.tab === "evidence"
        ? evidenceView()
        : question.tab === "rows"
          ? rowsView()
          : net.state.edge >= 0
            ? pairView(net.state.edge)
            : net.state.chosen >= 0
              ? columnView(net.state.chosen)
              : startView();
    view.replaceChildren(...parts.filter(Boolean));
    if (focused)
      [...view.querySelectorAll("[aria-label]")].find((part) => part.getAttribute("aria-label") === focused)?.focus();
    writeAddress();
  }

  async function refresh() {
    const evidence = question.tab === "evidence",
      set = given();
    answer = null;
    if (server && evidence) answer = await ask("beliefs", { set, filter: question.filter });
    else if (server && question.tab === "rows" && question.row >= 0) answer = await ask("row", { row: question.row });
    const colored = evidence && answer?.colors && Object.keys(set).length > 0;
    Object.assign(net.state, {
      belief: colored ? answer.colors : null,
      given: new Set(evidence ? Object.keys(set) : []),
    });
    net.draw();
    render();
    view.dataset.answered = String(turn);
  }
  function show(tab) {
    question.tab = tab;
    render();
    refresh();
  }

  function writeAddress() {
    const parts = new URLSearchParams(),
      { chosen, edge, group, count, signs } = net.state;
    if (question.tab !== "column") parts.set("tab", question.tab);
    if (chosen >= 0) parts.set("column", data.names[chosen]);
    if (edge >= 0) {
      parts.append("pair", data.names[data.a[edge]]);
      parts.append("pair", data.names[data.b[edge]]);
    }
    if (group >= 0) parts.set("group", String(group + 1));
    if (count !== data.initial) parts.set("edges", String(count));
    for (const sign of ["1", "0", "-1"]) if (!signs[sign]) parts.append("hide", sign);
    if (server && question.method !== server.method) parts.set("inference", question.method);
    if (question.table) parts.set("table", question.table);
    if (question.row >= 0) parts.set("row", String(question.row + 1));
    for (const [name, text] of Object.entries(question.set)) parts.set("set." + name, text);
    const text = parts.toString();
    history.replaceState(null, "", location.pathname + location.search + (text ? "#" + text : ""));
  }

  function readAddress() {
    const parts = new URLSearchParams(location.hash.slice(1)),
      changes = {},
      pair = parts.getAll("pair").map((name) => net.numberOf.get(name));
    changes.chosen = net.numberOf.get(parts.get("column")) ?? -1;
    changes.edge =
      pair.length === 2
        ? data.a.findIndex(
            (a, e) => (a === pair[0] && data.b[e] === pair[1]) || (a === pair[1] && data.b[e] === pair[0]),
          )
        : -1;
    changes.group = clamp(Math.floor(Number(parts.get("group") ?? 0)) || 0, 0, data.groups.length) - 1;
    changes.count = clamp(
      Math.floor(Number(parts.get("edges") ?? data.initial)) || data.initial,
      Math.min(1, data.a.length),
      data.a.length,
    );
    changes.signs = Object.fromEntries(["1", "0", "-1"].map((sign) => [sign, !parts.getAll("hide").includes(sign)]));
    for (const box of document.querySelectorAll("[data-sign]")) box.checked = changes.signs[box.dataset.sign];
    if (document.querySelector(`[data-tab="${CSS.escape(parts.get("tab") ?? "")}"]`)) question.tab = parts.get("tab");
    if (server) {
      if (server.methods.some(([method]) => method === parts.get("inference")))
        question.method = parts.get("inference");
      const table = server.tables.find(([name]) => name === (parts.get("table") ?? question.table));
      if (table) {
        question.table = table[0];
        const row = Math.floor(Number(parts.get("row") ?? 0)) || 0;
        question.row = row >= 1 && row <= table[1] ? row - 1 : -1;
      }
      for (const [key, text] of parts) {
        const name = key.slice(4);
        if (key.startsWith("set.") && server.columns[name] !== undefined)
          question.set[name] = text;
      }
    }
    net.update(changes);
  }

  for (const tab of document.querySelectorAll("[data-tab]")) tab.addEventListener("click", () => show(tab.dataset.tab));
  for (const link of document.querySelectorAll("[data-node]")) {
    link.addEventListener("click", () => {
      const k = net.numberOf.get(link.dataset.node);
      if (k === undefined) return;
      question.tab = "column";
      net.choose(k);
      find("network-section").scrollIntoView();
    });
  }
  readAddress();
  net.onChange(() => {
    if (question.tab === "column") render();
    else writeAddress();
  });
  addEventListener("hashchange", () => {
    question.set = {};
    readAddress();
    render();
    refresh();
  });
  render();
  refresh();
})();
