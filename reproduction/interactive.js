"use strict";
// Draws a page's figures anew under its reader's choices. The axes are those of axes.py.
const [GREY, PALE, FAR, FILL] = ["#667085", "#e4e7ec", 1e300, 0.12];
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const hasPlace = (value, log) => Number.isFinite(value) && (value > 0 || !log);
const half = (one) => (one.error > 0 ? one.error : 0);
const cut = (words, most) => (words.length > most ? `${words.slice(0, most - 1).trim()}…` : words);
const signed = (words) => words.replace("-", "\u2212");
const plain = (value, places) =>
  signed(value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }));
const tell = (value) =>
  Math.abs(value) >= 1000 && Math.abs(value) < 1e9 ? plain(value, 0) : signed(String(Number(value.toPrecision(4))));
const tellMean = ({ mean, error }) => tell(mean) + (error === null ? "" : ` ± ${Number(error.toPrecision(2))}`);

function power(value) {
  const [mantissa, exponent] = value.toExponential(3).split("e").map(Number);
  const raised = "10" + String(exponent).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
  return value === 0 ? "0" : mantissa === 1 ? raised : `${signed(String(mantissa))}×${raised}`;
}

function multiples(low, high, step) {
  const first = Math.ceil(low / step - 1e-6);
  const count = Math.max(Math.floor(high / step + 1e-6) - first + 1, 0);
  return Array.from({ length: count }, (_, k) => clamp((first + k) * step, low, high));
}

function even(low, high) {
  const unit = 10 ** Math.floor(Math.log10((high - low) / 5));
  return multiples(low, high, [1, 2, 5].map((k) => k * unit).find((step) => step >= (high - low) / 5) ?? 10 * unit);
}

function decades(low, high) {
  const powers = multiples(Math.ceil(low), Math.floor(high), 1);
  const stride = Math.max(1, Math.ceil(powers.length / 6));
  const ticks = powers.filter((p) => p % stride === 0).map((p) => 10 ** p);
  if (ticks.length > 1) return ticks;
  const near = multiples(Math.floor(low), Math.ceil(high), 1).flatMap((p) => [1, 2, 5].map((k) => k * 10 ** p));
  const between = near.filter((tick) => tick >= 10 ** low && tick <= 10 ** high);
  return between.length > 1 ? between : even(10 ** low, 10 ** high);
}

function fit(values, start, end, log, { room = 0.06, zero = true } = {}) {
  const scaled = (value) => (log ? Math.log10(clamp(value, 1 / FAR, FAR)) : clamp(value, -FAR, FAR));
  const known = values.filter((value) => hasPlace(value, log)).map(scaled);
  let [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  const [below, above] = [!log && low >= 0, !log && high <= 0];
  if (!log && size < 1 / FAR) [low, high] = [0, 1];
  else if (high - low < 1e-9 * (log ? 1 : size)) {
    const free = log ? 0.5 : 0.1 * size;
    [low, high] = [low - free, high + free];
  } else {
    if (zero && below && low < 0.4 * high) low = 0;
    if (zero && above && high > 0.4 * low) high = 0;
    const free = room * (high - low);
    [low, high] = [below ? Math.max(low - free, 0) : low - free, above ? Math.min(high + free, 0) : high + free];
  }
  if (log) [low, high] = [Math.max(low, -300), Math.min(high, 300)];
  const place = (value) => start + ((end - start) * (clamp(scaled(value), low, high) - low)) / (high - low);
  return { low, high, log, place, ticks: log ? decades(low, high) : even(low, high) };
}

function labels({ ticks, log }) {
  if (log && ticks.every((tick) => tick > 0.99e-3 && tick < 1e5))
    return ticks.map((tick) => (tick >= 1000 ? plain(tick, 0) : String(Number(tick.toPrecision(3)))));
  if (log || ticks.length < 2) return ticks.map(log ? power : tell);
  const places = Math.max(0, -Math.floor(Math.log10((ticks.at(-1) - ticks[0]) / (ticks.length - 1)) + 1e-6));
  const wide = places > 5 || ticks.some((tick) => Math.abs(tick) >= 1e7);
  return ticks.map((tick) => (wide ? power(tick) : Number(tick.toFixed(places)) ? plain(tick, places) : "0"));
}

function shape(tag, attributes = {}, words = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (words) node.textContent = words;
  return node;
}
const text = (x, y, words, more) => shape("text", { x, y, "font-size": 11, fill: GREY, ...more }, words);
const line = (x1, y1, x2, y2, stroke, more) => shape("line", { x1, y1, x2, y2, stroke, ...more });
const stroke = (look, width = 1.8) => ({
  fill: "none", stroke: look.colour, "stroke-width": width, "stroke-dasharray": look.dashed ? "5 3" : "none",
});

// The part of a panel that is shown, and its axes.
function choose(panel, state, box) {
  const shown = (all) => all.filter((one) => !state.hidden.has(one.look));
  const [curves, levels, histograms] = [shown(panel.curves), shown(panel.levels), shown(panel.histograms)];
  const all = [...curves.flatMap((one) => one.spots), ...levels];
  const counts = histograms.flatMap((one) => one.counts).filter((count) => count > 0);
  const wanted = state.scale === "own" ? panel.logY : state.scale === "log";
  const log = wanted && (counts.length > 0 || all.some((one) => one.mean > 0));
  const means = all.filter((one) => hasPlace(one.mean, log));
  const low = (one) => Math.max(one.mean - half(one), log ? one.mean / 5 : -Infinity);
  const ends = means.flatMap((one) => [one.mean, low(one), one.mean + half(one)]);
  const floor = histograms.length ? [log ? 0.6 * Math.min(...counts) : 0] : [];
  const room = log && floor.length ? 0.02 : 0.06;
  const upward = fit([...ends, ...counts, ...floor], box.floor, box.top, log, { room });
  const placed = curves.map((one) => one.spots.filter((spot) => hasPlace(spot.mean, log)));
  const xs = [...new Set(placed.flat().map((spot) => spot.x))].sort((a, b) => a - b);
  const left = clamp(Math.max(...labels(upward).map((label) => 6.4 * label.length)), 18, 78) + 8;
  const inset = floor.length ? 0 : 13;
  const places = floor.length ? histograms.flatMap((one) => one.edges) : xs;
  const across = fit(places, left + inset, box.right - inset, panel.logX, { room: 0, zero: false });
  if (xs.length === 1 || (panel.logX && xs.length <= 8) || !places.length) across.ticks = xs;
  const [empty, forced] = [!means.length && !counts.length, wanted && !log];
  return { curves, levels, histograms, placed, xs, upward, across, left, empty, forced };
}

function drawAxes(picture, panel, view, box) {
  const { upward, across, left } = view;
  const middle = { "text-anchor": "middle" };
  picture.append(
    text(0, 16, cut(panel.title, (box.right - 16) / 7.8), { "font-size": 13.5, "font-weight": 600, fill: "#1f2430" }),
    text(0, 33, view.forced && !view.empty ? "linear, since no value is above 0" : panel.yLabel),
    text((left + box.right) / 2, box.floor + 36, panel.xLabel, middle),
    line(left, box.floor, box.right, box.floor, GREY),
  );
  if (view.empty) return picture.append(text((left + box.right) / 2, (box.top + box.floor) / 2, "no values", middle));
  labels(upward).forEach((label, k) => {
    const y = upward.place(upward.ticks[k]);
    picture.append(line(left, y, box.right, y, PALE), text(left - 7, y + 4, label, { "text-anchor": "end" }));
  });
  let free = -Infinity;
  labels(across).forEach((label, k) => {
    const [x, reach] = [across.place(across.ticks[k]), 3.2 * label.length];
    if (x - reach < free) return;
    picture.append(line(x, box.floor, x, box.floor + 4, GREY), text(x, box.floor + 17, label, middle));
    free = x + reach + 5;
  });
}

function drawCurves(view, looks, layers, read) {
  const { across, upward, curves, xs } = view;
  const nearest = Math.min(Infinity, ...xs.slice(1).map((x, k) => across.place(x) - across.place(xs[k])));
  const step = Math.min(2.3, 20 / Math.max(curves.length - 1, 1), (0.6 * nearest) / Math.max(curves.length, 1));
  curves.forEach((curve, k) => {
    const look = looks[curve.look];
    const offset = step * (k - (curves.length - 1) / 2);
    const points = view.placed[k].map((spot) => [across.place(spot.x) + offset, upward.place(spot.mean), spot]);
    const through = "M" + points.map(([x, y]) => `${x} ${y}`).join("L");
    if (points.length > 1) layers[1].append(shape("path", { d: through, class: "curve", ...stroke(look) }));
    for (const [x, y, spot] of points) {
      const ends = [spot.mean - half(spot), spot.mean + half(spot)];
      const caps = ends.filter((end) => hasPlace(end, upward.log)).map((end) => `M${x - 2.6} ${upward.place(end)}h5.2`);
      const d = `M${x} ${upward.place(ends[0])}V${upward.place(ends[1])}${caps.join("")}`;
      const solid = { ...stroke(look, 1.2), "stroke-dasharray": "none", opacity: 0.8 };
      if (half(spot)) layers[0].append(shape("path", { d, class: "bar", ...solid }));
      const full = { fill: look.colour, stroke: "#fff", "stroke-width": 0.9 };
      const paint = look.dashed ? { fill: "#fff", stroke: look.colour, "stroke-width": 1.5 } : full;
      layers[2].append(shape("path", { d: look.mark, transform: `translate(${x} ${y})`, class: "spot", ...paint }));
      read(spot.x, across.place(spot.x), tell(spot.x), { look, words: tellMean(spot), x, y });
    }
  });
}

function drawHistograms(view, box, looks, layer, read) {
  const { across, upward } = view;
  for (const { look: k, edges, counts } of view.histograms) {
    let d = "";
    counts.forEach((count, n) => {
      const [low, high] = [across.place(edges[n]), across.place(edges[n + 1])];
      const y = count > 0 ? upward.place(count) : box.floor;
      if (count > 0 && !(counts[n - 1] > 0)) d += `M${low} ${box.floor}`;
      if (count > 0) d += `V${y}H${high}`;
      if (count > 0 && !(counts[n + 1] > 0)) d += `V${box.floor}`;
      const [x, words] = [(low + high) / 2, `${tell(edges[n])} to ${tell(edges[n + 1])}`];
      read(`${edges[n]} ${edges[n + 1]}`, x, words, { look: looks[k], words: tell(count), x, y });
    });
    layer.append(shape("path", { d, fill: looks[k].colour, "fill-opacity": FILL }));
    layer.append(shape("path", { d, class: "outline", ...stroke(looks[k], 1.4) }));
  }
}

function drawLevels(view, box, looks, layer, stops) {
  const { left, upward } = view;
  for (const level of view.levels.filter((one) => hasPlace(one.mean, upward.log))) {
    const [look, y, top] = [looks[level.look], upward.place(level.mean), upward.place(level.mean + half(level))];
    const size = { x: left, y: top, width: box.right - left, height: upward.place(level.mean - half(level)) - top };
    layer.append(shape("rect", { ...size, fill: look.colour, "fill-opacity": FILL }));
    layer.append(line(left, y, box.right, y, look.colour, { class: "level", ...stroke(look) }));
    if (!stops.size) stops.set("", { x: (left + box.right) / 2, words: "", rows: [] });
    for (const stop of stops.values()) stop.rows.push({ look, words: tellMean(level), x: stop.x, y });
  }
}

// A panel as a picture, and its stops: the places where it can be read off.
function drawPanel(panel, looks, state, large) {
  const small = panel.histograms.length ? [400, 300] : [270, 250];
  const [width, height] = large ? [830, 480] : small;
  const box = { top: 48, floor: height - 46, right: width - 14 };
  const spoken = `${panel.title}; arrow keys read values`;
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": spoken });
  const [view, layers, stops] = [choose(panel, state, box), [0, 1, 2].map(() => shape("g")), new Map()];
  const read = (key, x, words, row) => {
    if (!stops.has(key)) stops.set(key, { x, words, rows: [] });
    stops.get(key).rows.push(row);
  };
  drawAxes(picture, panel, view, box);
  if (!view.empty) {
    drawCurves(view, looks, layers, read);
    drawHistograms(view, box, looks, layers[1], read);
    drawLevels(view, box, looks, layers[0], stops);
  }
  picture.append(...layers);
  return { picture, box, stops: [...stops.values()].sort((a, b) => a.x - b.x) };
}

const nearest = (all, distance) => all.reduce((best, one) => (distance(one) < distance(best) ? one : best));

// Tells all values at a stop in the page's one tip; the row nearest to a height stands out.
function showTip(tip, panel, drawn, stop, height) {
  const { picture, box } = drawn;
  const chosen = nearest(stop.rows, (row) => Math.abs(row.y - height));
  const rows = stop.rows.map((row) => {
    const item = document.createElement("li");
    item.style.setProperty("--colour", row.look.colour);
    item.className = (row === chosen ? "nearest " : "") + (row.look.dashed ? "hollow" : "");
    item.append(Object.assign(document.createElement("span"), { textContent: row.look.name }), row.words);
    return item;
  });
  const [head, list] = [document.createElement("strong"), document.createElement("ul")];
  head.textContent = stop.words && `${panel.xLabel} ${stop.words}`;
  list.append(...rows);
  tip.replaceChildren(head, list);
  tip.hidden = false;
  picture.querySelector(".guide")?.remove();
  const guide = picture.insertBefore(shape("g", { class: "guide" }), picture.lastChild);
  guide.append(line(stop.x, box.top, stop.x, box.floor, GREY, { "stroke-dasharray": "2 3" }));
  guide.append(shape("circle", { cx: chosen.x, cy: chosen.y, r: 8, fill: chosen.look.colour, "fill-opacity": 0.25 }));
  const frame = picture.getBoundingClientRect();
  const unit = frame.width / picture.viewBox.baseVal.width;
  const x = frame.left + stop.x * unit;
  const side = x + 18 + tip.offsetWidth > document.documentElement.clientWidth ? -18 - tip.offsetWidth : 18;
  tip.style.left = `${Math.max(x + side, 4) + scrollX}px`;
  tip.style.top = `${frame.top + box.top * unit + scrollY}px`;
}

function addPanel(grid, panel, figure, state, tip, number) {
  const holder = grid.appendChild(Object.assign(document.createElement("div"), { className: "panel" }));
  const button = holder.appendChild(document.createElement("button"));
  Object.assign(button, { type: "button", className: "enlarge", textContent: "⤢" });
  let [drawn, at] = [null, -1];
  const hide = () => {
    tip.hidden = true;
    drawn.picture.querySelector(".guide")?.remove();
  };
  const enlarge = () => {
    state.large = state.large === number ? -1 : number;
    state.redraw();
    holder.scrollIntoView({ block: "nearest" });
  };
  button.addEventListener("click", enlarge);
  return () => {
    const [large, focused] = [state.large === number, drawn && document.activeElement === drawn.picture];
    drawn?.picture.remove();
    drawn = drawPanel(panel, figure.looks, state, large);
    holder.classList.toggle("large", large);
    button.setAttribute("aria-pressed", large);
    button.setAttribute("aria-label", `Enlarge ${panel.title}`);
    const { picture, stops } = drawn;
    holder.prepend(picture);
    at = -1;
    tip.hidden = true;
    if (focused) picture.focus();
    picture.addEventListener("click", enlarge);
    picture.addEventListener("pointerleave", hide);
    picture.addEventListener("blur", hide);
    picture.addEventListener("pointermove", (event) => {
      const frame = picture.getBoundingClientRect();
      const unit = picture.viewBox.baseVal.width / frame.width;
      const [x, y] = [(event.clientX - frame.left) * unit, (event.clientY - frame.top) * unit];
      if (stops.length) showTip(tip, panel, drawn, nearest(stops, (stop) => Math.abs(stop.x - x)), y);
    });
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") hide();
      if (event.key === "Enter") enlarge();
      if (!step || !stops.length) return;
      event.preventDefault();
      at = at < 0 ? (step > 0 ? 0 : stops.length - 1) : clamp(at + step, 0, stops.length - 1);
      showTip(tip, panel, drawn, stops[at], 0);
    });
  };
}

function start() {
  const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  JSON.parse(document.getElementById("figures-data").textContent).forEach((figure, k) => {
    const place = document.querySelector(`[data-figure="${k}"]`);
    const state = { hidden: new Set(), scale: "own", large: -1 };
    const grid = place.querySelector(".grid");
    const draw = figure.panels.map((panel, n) => addPanel(grid, panel, figure, state, tip, n));
    state.redraw = () => draw.forEach((each) => each());
    for (const button of place.querySelectorAll("[data-look]"))
      button.addEventListener("click", () => {
        const look = Number(button.dataset.look);
        if (!state.hidden.delete(look)) state.hidden.add(look);
        button.setAttribute("aria-pressed", !state.hidden.has(look));
        state.redraw();
      });
    for (const button of place.querySelectorAll("[data-scale]"))
      button.addEventListener("click", () => {
        state.scale = button.dataset.scale;
        place.querySelectorAll("[data-scale]").forEach((one) => one.setAttribute("aria-pressed", one === button));
        state.redraw();
      });
    state.redraw();
    place.querySelector(".live").hidden = false;
    place.querySelector(".static").remove();
  });
}

if (typeof document === "undefined") module.exports = { fit, labels, tell };
else start();
