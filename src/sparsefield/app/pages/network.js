// This script draws the network of a field on a canvas: pan, zoom, filter by strength, search, list of neighbors.
// Everything that comes from data is inserted as text, never as markup.
"use strict";
(() => {
  const holder = document.getElementById("network-data");
  const canvas = document.getElementById("network");
  if (!holder || !canvas) return;
  const data = JSON.parse(holder.textContent);
  const find = (id) => document.getElementById(id);
  const [details, search, matches, slider, shownText] =
    ["details", "search", "matches", "strength", "shown"].map(find);
  const paint = canvas.getContext("2d");
  // The colors are those of the page's theme. Edges without a sign connect states that have no order, or have features
  // of both signs.
  const color = {};
  function readColors() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "card", "faint", "neutral", "positive", "negative"]) {
      color[name] = style.getPropertyValue("--" + name).trim();
    }
  }
  readColors();
  const signColor = (sign) => [color.negative, color.neutral, color.positive][sign + 1];
  const SIGN_NAMES = { "1": "plus", "0": "neutral", "-1": "minus" };
  const n = data.names.length, total = data.a.length;
  const largest = total ? data.s[0] : 1;
  const lower = data.names.map((name) => name.toLowerCase());

  const edgesOf = Array.from({ length: n }, () => []);
  const weightOf = new Float64Array(n);
  for (let e = 0; e < total; e++) {
    for (const node of new Set([data.a[e], data.b[e]])) {
      edgesOf[node].push(e);
      weightOf[node] += data.s[e];
    }
  }
  const heaviest = Math.max(1e-9, ...weightOf);
  const byWeight = Array.from(weightOf.keys()).sort((p, q) => weightOf[q] - weightOf[p] || p - q);

  const view = { x: 0, y: 0, scale: 1, touched: false };
  let count = data.initial, chosen = -1, pointed = -1, group = -1, waiting = false;
  const shownSigns = { "1": true, "0": true, "-1": true };
  let connected = data.tree.some((on, e) => on && e >= data.initial);

  // -- positions of nodes -----------------------------------------------------------------------------------------

  // The strongest edges have a layout of their own, since they are hard to see in the layout of all edges. In it, a
  // column without such an edge is placed in the center, or on a ring around the chosen column.
  const whole = data.x.map((x, k) => [x, data.y[k]]);
  const known = data.initialX.map((x, k) => [x, data.initialY[k]]);
  let spots = [], goal = [], moving = 0;

  function places() {
    if (count > data.initial) return whole;
    const center = chosen >= 0 && chosen < known.length ? known[chosen] : [0, 0];
    const extra = chosen < 0 ? [] : [...new Set(edgesOf[chosen].flatMap((e) => [data.a[e], data.b[e]]))]
      .filter((k) => k >= known.length && k !== chosen);
    const now = whole.map((_, k) => known[k] || center), far = 70 + 5 * extra.length;
    extra.forEach((k, i) => {
      const angle = 2 * Math.PI * (i + 0.5) / extra.length;
      now[k] = [center[0] + far * Math.cos(angle), center[1] + far * Math.sin(angle)];
    });
    return now;
  }

  // Nodes move to their positions at once, or within a third of a second if they had others.
  function moveNodes(animate) {
    goal = places();
    const from = spots, began = performance.now(), turn = ++moving;
    const instant = !animate || !from.length || matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (instant) { spots = goal; return; }
    const step = (now) => {
      if (turn !== moving) return;
      const share = Math.min(1, (now - began) / 350), ease = share * share * (3 - 2 * share);
      spots = share === 1 ? goal
        : goal.map((to, k) => [from[k][0] + ease * (to[0] - from[k][0]), from[k][1] + ease * (to[1] - from[k][1])]);
      draw();
      if (share < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  // -- visible edges and nodes ---------------------------------------------------------------------------------------------

  const passes = (e) => shownSigns[data.sign[e]];
  const inGroup = (e) => group < 0 || (data.group[data.a[e]] === group && data.group[data.b[e]] === group);

  function visibleEdges() {
    const edges = [];
    const isOn = (e) => (e < count || (connected && data.tree[e])) && passes(e) && inGroup(e);
    for (let e = 0; e < (connected ? total : count); e++) if (isOn(e)) edges.push(e);
    if (chosen >= 0) for (const e of edgesOf[chosen]) if (!isOn(e)) edges.push(e);
    return edges;
  }

  function visibleNodes(edges) {
    const nodes = new Set();
    for (const e of edges) nodes.add(data.a[e]).add(data.b[e]);
    if (chosen >= 0) nodes.add(chosen);
    return nodes;
  }

  function fit(nodes = visibleNodes(visibleEdges())) {
    const box = canvas.getBoundingClientRect();
    if (!nodes.size || !box.width) return;
    let left = Infinity, right = -Infinity, top = Infinity, floor = -Infinity;
    for (const k of nodes) {
      const [x, y] = goal[k];
      left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); floor = Math.max(floor, y);
    }
    const room = 48;
    view.scale = Math.min((box.width - 2 * room) / Math.max(right - left, 1),
      (box.height - 2 * room) / Math.max(floor - top, 1), 2.6);
    view.x = box.width / 2 - view.scale * (left + right) / 2;
    view.y = box.height / 2 - view.scale * (top + floor) / 2;
    view.touched = false;
    draw();
  }

  const placeX = (k) => view.x + view.scale * spots[k][0];
  const placeY = (k) => view.y + view.scale * spots[k][1];
  const radius = (k) => (3.5 + 8 * Math.sqrt(weightOf[k] / heaviest)) * Math.min(1, Math.max(0.55, 2.5 * view.scale));

  // -- drawing ---------------------------------------------------------------------------------------------------

  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; render(); });
  }

  function render() {
    const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, box.width, box.height);
    const edges = visibleEdges(), nodes = visibleNodes(edges);
    const center = pointed >= 0 && nodes.has(pointed) ? pointed : chosen;
    const near = new Set(center >= 0 ? [center] : []);
    if (center >= 0) for (const e of edges) {
      if (data.a[e] === center) near.add(data.b[e]);
      if (data.b[e] === center) near.add(data.a[e]);
    }
    drawEdges(edges, center);
    drawNodes(nodes, near, center);
    drawNames(nodes, near, center, box);
    showCount(edges.length);
  }

  // Edges of equal style form one path, so that thousands are drawn at once; strong edges are on top.
  function drawEdges(edges, center) {
    const LEVELS = 8, styles = new Map();
    for (const e of edges) {
      const level = Math.min(LEVELS - 1, Math.floor(LEVELS * data.s[e] / largest));
      const own = center < 0 || data.a[e] === center || data.b[e] === center;
      const key = (own ? 1000 : 0) + level * 3 + data.sign[e] + 1;
      if (!styles.has(key)) styles.set(key, []);
      styles.get(key).push(e);
    }
    const zoom = Math.min(1.6, Math.max(0.5, Math.sqrt(view.scale * 2)));
    for (const key of [...styles.keys()].sort((p, q) => p - q)) {
      const rest = key % 1000, level = Math.floor(rest / 3), sign = rest % 3 - 1, own = key >= 1000;
      const line = (0.7 + 6 * (level + 0.5) / LEVELS) * zoom;
      paint.beginPath();
      for (const e of styles.get(key)) {
        const x1 = placeX(data.a[e]), y1 = placeY(data.a[e]);
        if (data.a[e] === data.b[e]) {
          paint.moveTo(x1 + 9, y1 - 12);
          paint.arc(x1, y1 - 12, 9, 0, 2 * Math.PI);
        } else {
          paint.moveTo(x1, y1);
          paint.lineTo(placeX(data.b[e]), placeY(data.b[e]));
        }
      }
      paint.lineWidth = line;
      paint.strokeStyle = own ? signColor(sign) : color.faint;
      paint.globalAlpha = own ? (edges.length > 1500 && center < 0 ? 0.3 : 0.62) : 0.35;
      paint.setLineDash(sign >= 0 || edges.length > 1500 ? [] : [2 * line + 2, line + 1.5]);
      paint.stroke();
    }
    paint.setLineDash([]);
    paint.globalAlpha = 1;
  }

  function drawNodes(nodes, near, center) {
    for (const k of nodes) {
      const dimmed = center >= 0 && !near.has(k);
      paint.beginPath();
      paint.arc(placeX(k), placeY(k), radius(k), 0, 2 * Math.PI);
      paint.fillStyle = dimmed ? color.faint : data.colors[data.group[k]] || color.neutral;
      paint.fill();
      paint.lineWidth = k === center ? 3 : 1.2;
      paint.strokeStyle = k === center ? color.ink : color.card;
      paint.stroke();
    }
  }

  // Names are drawn where there is room: first around the chosen column, then columns with strong edges.
  function drawNames(nodes, near, center, box) {
    const taken = new Map(), CELL = 60, free = nodes.size > 400 && center < 0 ? 12 : 0; // keep the named nodes visible
    const order = center >= 0 ? [center, ...byWeight.filter((k) => k !== center && near.has(k))] : byWeight;
    paint.textAlign = "center";
    paint.textBaseline = "alphabetic";
    paint.lineJoin = "round";
    for (const k of order) {
      if (!nodes.has(k)) continue;
      const middle = placeX(k), y = placeY(k) - radius(k) - 4;
      if (middle < -60 || middle > box.width + 60 || y < -20 || y > box.height + 20) continue;
      paint.font = (k === center ? "600 13px " : "12px ") + "system-ui, sans-serif";
      const name = k === center ? data.names[k] : data.short[k];
      const half = paint.measureText(name).width / 2 + 3;
      const x = Math.min(Math.max(middle, half), Math.max(box.width - half, half));
      const own = [x - half - free, y - 12 - free, x + half + free, y + 3 + free];
      if (k !== center && overlaps(own, taken, CELL)) continue;
      keep(own, taken, CELL);
      paint.lineWidth = 3.5;
      paint.strokeStyle = color.card;
      paint.strokeText(name, x, y);
      paint.fillStyle = color.ink;
      paint.fillText(name, x, y);
    }
  }

  function* cells(box, cell) {
    for (let i = Math.floor(box[0] / cell); i <= Math.floor(box[2] / cell); i++)
      for (let j = Math.floor(box[1] / cell); j <= Math.floor(box[3] / cell); j++) yield i + ":" + j;
  }
  function overlaps(box, taken, cell) {
    for (const key of cells(box, cell))
      for (const other of taken.get(key) || [])
        if (box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]) return true;
    return false;
  }
  function keep(box, taken, cell) {
    for (const key of cells(box, cell)) {
      if (!taken.has(key)) taken.set(key, []);
      taken.get(key).push(box);
    }
  }

  function showCount(drawn) {
    const weakest = count ? data.s[count - 1] : 0;
    const which = count === total ? `all ${total.toLocaleString("en")} edges`
      : `the ${count.toLocaleString("en")} strongest of ${total.toLocaleString("en")} edges`;
    const more = connected ? data.tree.reduce((sum, on, e) => sum + (on && e >= count ? 1 : 0), 0) : 0;
    const also = more ? ` and ${more.toLocaleString("en")} that connect columns` : `; strength at least ${weakest.toPrecision(2)}`;
    const text = total ? which + also : "no edges";
    if (shownText.textContent !== text) shownText.textContent = text;
    canvas.dataset.drawn = String(drawn);
  }

  // -- details ---------------------------------------------------------------------------------------------------

  function element(tag, text, kind) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function nodeButton(k) {
    const button = element("button", data.names[k], "go plain");
    button.type = "button";
    button.addEventListener("click", () => choose(k, true));
    return button;
  }

  const signed = (weight) => (weight > 0 ? "+" : "\u2212") + Math.abs(weight).toFixed(2);

  // A feature is [state, state, weight, 0, extras]; one of more columns is [its name, null, weight, 1, extras].
  function featureLine(e, feature) {
    const line = element("li", undefined, feature[2] > 0 ? "plus" : "minus");
    const term = (name, state) => (state === null ? name : `${name} = ${state}`);
    const text = feature[3] ? feature[0]
      : [term(data.names[data.a[e]], feature[0]), term(data.names[data.b[e]], feature[1])].join("  &  ");
    line.append(element("b", signed(feature[2])), element("span", text));
    (feature[4] || []).forEach((value, k) => {
      if (value !== null) line.append(element("i", `${data.extra[k]}: ${value}`));
    });
    return line;
  }

  function edgeBlock(e, from) {
    const other = data.a[e] === from ? data.b[e] : data.a[e];
    const part = element("div", undefined, "neighbor"), head = element("div", undefined, "head");
    head.append(nodeButton(other));
    if (data.t[e] >= 0) head.append(element("span", data.templates[data.t[e]], "over"));
    const bar = element("span", undefined, "bar " + SIGN_NAMES[data.sign[e]]);
    bar.style.width = Math.max(2, 72 * data.s[e] / largest) + "px";
    bar.title = "strength " + data.s[e];
    head.append(bar);
    const list = element("ul");
    for (const feature of data.f[e]) list.append(featureLine(e, feature));
    if (data.more[e]) list.append(element("li", `and ${data.more[e]} weaker features`));
    part.append(head, list);
    return part;
  }

  function showDetails() {
    details.replaceChildren();
    if (chosen < 0) {
      details.append(element("h3", "Select a column"), element("p",
        "Click a column to see its neighbors and weights. Drag to move, scroll to zoom. Columns with the strongest edges:"));
      const list = element("div", undefined, "start");
      for (const k of byWeight.slice(0, 12)) list.append(nodeButton(k));
      details.append(list);
      return;
    }
    const edges = [...edgesOf[chosen]].sort((p, q) => data.s[q] - data.s[p] || p - q);
    details.append(element("h3", data.names[chosen]));
    if (data.descriptions[chosen]) details.append(element("p", data.descriptions[chosen]));
    const groupName = data.groups[data.group[chosen]];
    const many = edges.length === 1 ? "1 edge" : `${edges.length.toLocaleString("en")} edges`;
    details.append(element("p", (groupName ? `${groupName}; ` : "") + many + (data.cut ? ", of those on this page" : "")));
    for (const e of edges.slice(0, 200)) details.append(edgeBlock(e, chosen));
    if (edges.length > 200) details.append(element("p", `and ${edges.length - 200} weaker edges`));
  }

  function choose(k, move) {
    chosen = k;
    pointed = -1;
    moveNodes();
    if (k >= 0 && move) {
      fit(new Set([k, ...edgesOf[k].flatMap((e) => [data.a[e], data.b[e]])]));
      view.touched = true;
    }
    showDetails();
    details.scrollTop = 0;
    draw();
  }

  // -- search and filters ----------------------------------------------------------------------------------------

  function found() {
    const query = search.value.trim().toLowerCase();
    if (!query) return [];
    const begins = [], holds = [];
    for (const k of byWeight) {
      if (lower[k].startsWith(query)) begins.push(k);
      else if (lower[k].includes(query)) holds.push(k);
    }
    return [...begins, ...holds];
  }

  function suggest() {
    const all = found();
    matches.replaceChildren(...all.slice(0, 12).map(nodeButton));
    if (search.value.trim() && !all.length) matches.append(element("span", "no column of the network has this name"));
    if (all.length > 12) matches.append(element("span", `and ${all.length - 12} more`));
  }
  search.addEventListener("input", suggest);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      const [first] = found();
      if (first !== undefined) choose(first, true);
      event.preventDefault();
    } else if (event.key === "Escape") {
      search.value = "";
      suggest();
    }
  });

  // The slider is logarithmic: its middle is the square root of the number of edges.
  const STOPS = 1000;
  const toCount = (stop) => Math.max(1, Math.round(Math.pow(total, stop / STOPS)));
  slider.max = String(STOPS);
  slider.value = String(total > 1 ? Math.floor(STOPS * Math.log(count) / Math.log(total)) : STOPS);
  slider.disabled = total < 2;
  slider.addEventListener("input", () => {
    const before = count;
    count = Math.min(total, Number(slider.value) >= STOPS ? total : toCount(Number(slider.value)));
    const other = (before > data.initial) !== (count > data.initial);
    if (other) moveNodes(true);
    if (other || !view.touched) fit(); else draw();
  });
  for (const [id, sign] of [["positive", 1], ["negative", -1], ["neutral", 0]]) {
    find(id).addEventListener("change", (event) => { shownSigns[sign] = event.target.checked; draw(); });
  }

  find("connected").addEventListener("change", (event) => { connected = event.target.checked; fit(); });

  const legend = find("groups");
  data.groups.forEach((name, k) => {
    const button = element("button", undefined, "group plain");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    const dot = element("span", undefined, "dot");
    dot.style.background = data.colors[k] || color.neutral;
    button.append(dot, element("span", name));
    button.addEventListener("click", () => {
      group = group === k ? -1 : k;
      for (const [j, other] of [...legend.children].entries()) other.setAttribute("aria-pressed", String(j === group));
      fit();
    });
    legend.append(button);
  });

  // -- mouse, touch and keys ---------------------------------------------------------------------------------------------

  function zoomAt(x, y, factor) {
    const scale = Math.min(40, Math.max(0.01, view.scale * factor));
    view.x = x - (x - view.x) * scale / view.scale;
    view.y = y - (y - view.y) * scale / view.scale;
    view.scale = scale;
    view.touched = true;
    draw();
  }

  function nodeAt(x, y) {
    let best = -1, least = 14;
    for (const k of visibleNodes(visibleEdges())) {
      const distance = Math.hypot(placeX(k) - x, placeY(k) - y) - radius(k);
      if (distance < least) { best = k; least = distance; }
    }
    return best;
  }

  const fingers = new Map();
  let moved = 0;
  const placeOf = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, placeOf(event));
    if (fingers.size === 1) moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = placeOf(event), before = fingers.get(event.pointerId);
    if (!before) {
      const now = nodeAt(x, y);
      canvas.style.cursor = now >= 0 ? "pointer" : "grab";
      if (now !== pointed) { pointed = now; draw(); }
      return;
    }
    if (fingers.size === 1) {
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      view.x += x - before[0];
      view.y += y - before[1];
      if (moved > 4) view.touched = true;
      draw();
    } else {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const [was, is] = [before, [x, y]].map((place) => Math.hypot(place[0] - other[0], place[1] - other[1]));
      moved = 99;
      if (was > 0) zoomAt((x + other[0]) / 2, (y + other[1]) / 2, is / was);
    }
    fingers.set(event.pointerId, [x, y]);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(kind, (event) => {
      if (kind === "pointerup" && fingers.size === 1 && moved <= 4) choose(nodeAt(...placeOf(event)), false);
      fingers.delete(event.pointerId);
    });
  }
  canvas.addEventListener("pointerleave", () => { if (pointed >= 0) { pointed = -1; draw(); } });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomAt(...placeOf(event), Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)));
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => zoomAt(...placeOf(event), 1.8));

  const middle = () => [canvas.clientWidth / 2, canvas.clientHeight / 2];
  find("zoom-in").addEventListener("click", () => zoomAt(...middle(), 1.5));
  find("zoom-out").addEventListener("click", () => zoomAt(...middle(), 1 / 1.5));
  find("reset").addEventListener("click", () => { choose(-1, false); fit(); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (step) { view.x += step[0]; view.y += step[1]; view.touched = true; draw(); }
    else if (event.key === "+" || event.key === "=") zoomAt(...middle(), 1.3);
    else if (event.key === "-") zoomAt(...middle(), 1 / 1.3);
    else if (event.key === "0") fit();
    else if (event.key === "Escape") choose(-1, false);
    else return;
    event.preventDefault();
  });

  // -- downloads -------------------------------------------------------------------------------------------------

  function download(blob, name) {
    const link = element("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // The picture of the canvas has the background of the page, which a canvas lacks.
  find("save-png").addEventListener("click", () => {
    render();
    const copy = element("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const brush = copy.getContext("2d");
    brush.fillStyle = color.card;
    brush.fillRect(0, 0, copy.width, copy.height);
    brush.drawImage(canvas, 0, 0);
    copy.toBlob((blob) => download(blob, "network.png"), "image/png");
  });
  find("save-svg").addEventListener("click", () => {
    const text = new XMLSerializer().serializeToString(find("static").querySelector("svg"));
    download(new Blob([text], { type: "image/svg+xml" }), "network.svg");
  });

  // Buttons elsewhere on the page select a column of the network.
  for (const link of document.querySelectorAll("[data-node]")) {
    link.addEventListener("click", () => {
      choose(Number(link.dataset.node), true);
      canvas.scrollIntoView({ block: "center" });
    });
  }

  find("interactive").hidden = false;
  const picture = find("static");
  if (picture) picture.hidden = true;
  const recolor = () => { readColors(); draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolor);
  new MutationObserver(recolor).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  new ResizeObserver(() => { if (view.touched) draw(); else fit(); }).observe(canvas);
  moveNodes();
  showDetails();
  fit();
  render(); // draw now: a background page gets no animation frames
})();
