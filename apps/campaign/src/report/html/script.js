"use strict";

// ---- Data, elements, numbers -------------------------------------------------------------------------------------------

// Names of parameters and results are those of a file: none has another meaning, such as `__proto__`.
const bare = (value) => (value === null || typeof value !== "object" || Array.isArray(value) ? value : Object.assign(Object.create(null), value));
const data = JSON.parse(document.getElementById("data").textContent, (_, value) => bare(value));
const root = document.documentElement;
const namespace = document.querySelector("svg").namespaceURI;
const query = new URLSearchParams(location.search);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}
const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(namespace, name), attributes, children);

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// Four significant digits, as in report.md.
function show(number) {
  if (!isNumber(number)) return "–";
  if (number === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(number)));
  return magnitude < -4 || magnitude >= 7 ? number.toExponential(3) : number.toFixed(Math.max(0, 3 - magnitude));
}
// Without digits that say nothing: for axes.
const brief = (number) => String(Number(number.toPrecision(4)));

function showInterval(value) {
  if (!value) return "–";
  return isNumber(value.low) ? `${show(value.median)} (${show(value.low)} to ${show(value.high)})` : `${show(value.median)} (no interval)`;
}
const showTime = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC";
const shorten = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
// Names that differ still do: what they have in common goes first.
function shortenAll(texts, most) {
  const half = Math.floor(most / 2);
  const ways = [(text) => shorten(text, most), (text) => `…${text.slice(1 - most)}`, (text) => `${text.slice(0, most - half - 1)}…${text.slice(-half)}`];
  const shorter = ways.map((way) => texts.map((text) => (text.length > most ? way(text) : text)));
  const distinct = new Set(texts).size;
  return shorter.find((tried) => new Set(tried).size === distinct) ?? texts.map((text, number) => shorten(`${number + 1} ${text}`, most));
}

// Devices of one name that are unlike, as when another library ran on them.
for (const device of data.runs.devices) {
  if (data.runs.devices.some((other) => other !== device && device.name === other.name)) device.unlike = `${device.name}, ${device.class}`;
}
for (const device of data.runs.devices) device.name = device.unlike ?? device.name;

// ---- Points, contenders, filters ---------------------------------------------------------------------------------------

const contenders = [...new Set(data.rows.map((row) => row.contender))];
// Of 24 lines, all differ in colour or dashes; of 64 markers, all in colour or shape.
const lookAt = (number) => `k${number % 8} d${Math.floor(number / 8) % 3}`;
const shapeAt = (number) => SHAPES[(number + Math.floor(number / 8)) % 8];
const lookOf = (contender) => lookAt(contenders.indexOf(contender));
const shapeOf = (contender) => shapeAt(contenders.indexOf(contender));
const valuesOf = Object.fromEntries(data.parameters.map((name) => [name, [...new Set(data.rows.map((row) => row.parameters[name]))]]));
const swept = data.parameters.filter((name) => valuesOf[name].length > 1);
const describe = (parameters, names = swept) => names.filter((name) => parameters[name] !== undefined).map((name) => `${name}=${parameters[name]}`).join(" ") || "the only point";

const filters = { parameters: bare({}), contenders: new Set(contenders), text: "" };
for (const name of swept) filters.parameters[name] = query.get(`p.${name}`) ?? "";

function isShown(row) {
  const words = filters.text.toLowerCase().split(/\s+/).filter(Boolean);
  const text = words.length ? `${describe(row.parameters, data.parameters)} ${row.contender} ${row.command}`.toLowerCase() : "";
  return filters.contenders.has(row.contender)
    && swept.every((name) => filters.parameters[name] === "" || String(row.parameters[name]) === filters.parameters[name])
    && words.every((word) => text.includes(word));
}

const figures = [];
let isPrinting = false;
function redraw() {
  const rows = data.rows.filter(isShown);
  for (const figure of figures) figure.draw(rows);
  count.textContent = `${rows.length} of ${data.rows.length} rows`;
}

// A parameter of a few values is chosen, and one of many is typed.
function makeChoice(label, options, value, change) {
  const select = html("select", { onchange: () => change(select.value) }, options.map(([key, text]) => html("option", { value: key, selected: key === value }, text)));
  return html("label", {}, label, select);
}

function marker(contender) {
  return svg("svg", { class: `swatch fill ${lookOf(contender)}`, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, svg("path", { d: `M0 0${shapeOf(contender)}` }));
}

const count = html("output", { "aria-live": "polite" });
function makeFilters() {
  const choices = swept.map((name) => makeChoice(name, [["", "all"], ...shortenAll(valuesOf[name].map(String), 40).map((text, number) => [String(valuesOf[name][number]), text])], filters.parameters[name], (value) => {
    filters.parameters[name] = value;
    redraw();
  }));
  const boxes = contenders.map((contender) => html("label", {}, html("input", {
    type: "checkbox", checked: true, onchange: (event) => {
      if (event.target.checked) filters.contenders.add(contender);
      else filters.contenders.delete(contender);
      redraw();
    },
  }), marker(contender), contender));
  const search = html("label", {}, "Search", html("input", { type: "search", placeholder: "words", oninput: (event) => { filters.text = event.target.value; redraw(); } }));
  return html("form", { class: "filters", "aria-label": "Filters of all figures", onsubmit: (event) => event.preventDefault() },
    html("fieldset", {}, html("legend", {}, "Contenders"), boxes), choices, search, count);
}

// ---- Tips: by pointer and by arrow keys --------------------------------------------------------------------------------

const tip = document.getElementById("tip");
function showTip(lines, x, y) {
  tip.replaceChildren(...lines.filter(Boolean).map((line) => html("p", {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.max(4, Math.min(x + 14, innerWidth - width - 4));
  const top = y + 14 + height > innerHeight ? Math.max(4, y - 14 - height) : y + 14;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}
function hideTip() {
  tip.hidden = true;
  document.querySelector(".ring")?.remove();
}

// A chart with marks `{x, y, w, h, lines}`. Marks with a width are areas, others are points.
function makeChart(width, height, label) {
  const marks = [];
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "application", "aria-roledescription": "chart", tabindex: 0, "aria-label": `${label} Arrow keys move between the marks.` });
  picture.style.maxWidth = `${width}px`;
  let current = -1;
  const choose = (number) => {
    hideTip();
    current = number;
    const mark = marks[number];
    if (!mark) return;
    picture.append(mark.w
      ? svg("rect", { class: "ring", x: mark.x, y: mark.y, width: mark.w, height: mark.h })
      : svg("circle", { class: "ring", cx: mark.x, cy: mark.y, r: 8 }));
    const box = picture.getBoundingClientRect();
    showTip(mark.lines(), box.left + ((mark.x + (mark.w ?? 0) / 2) * box.width) / width, box.top + ((mark.y + (mark.h ?? 0) / 2) * box.height) / height);
  };
  const point = (event) => {
    const box = picture.getBoundingClientRect();
    const x = ((event.clientX - box.left) * width) / box.width;
    const y = ((event.clientY - box.top) * height) / box.height;
    let best = -1;
    let nearest = 26 ** 2;
    marks.forEach((mark, number) => {
      const away = mark.w
        ? (x >= mark.x && x <= mark.x + mark.w && y >= mark.y && y <= mark.y + mark.h ? 0 : Infinity)
        : (x - mark.x) ** 2 + (y - mark.y) ** 2;
      if (away < nearest) [best, nearest] = [number, away];
    });
    if (best !== current || tip.hidden) choose(best);
  };
  fill(picture, {
    onpointermove: point,
    onpointerdown: point,
    onpointerleave: () => choose(-1),
    onblur: () => choose(-1),
    onkeydown: (event) => {
      const last = marks.length - 1;
      const next = { ArrowRight: Math.min(last, current + 1), ArrowDown: Math.min(last, current + 1), ArrowLeft: Math.max(0, current - 1), ArrowUp: Math.max(0, current - 1), Home: 0, End: last, Escape: -1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      choose(next);
    },
  }, []);
  return { picture, marks };
}

// ---- Axes --------------------------------------------------------------------------------------------------------------

// Maps values to pixels. `values` decide the ends; logarithmic where they span much, and otherwise from 0.
function makeScale(values, from, to, { log, zero = true, most = 6, pad = 0.06 } = {}) {
  const finite = values.filter(isNumber);
  let low = finite.length ? finite.reduce((a, b) => Math.min(a, b)) : 0;
  let high = finite.length ? finite.reduce((a, b) => Math.max(a, b)) : 1;
  const isLog = low > 0 && (log ?? high / low >= 30);
  if (isLog) {
    if (high / low < 1.05) [low, high] = [low / 1.1, high * 1.1];
    const space = (high / low) ** pad;
    [low, high] = [low / space, high * space];
    const span = Math.log(high / low);
    const at = (value) => from + (Math.log(value / low) / span) * (to - from);
    return { at, ticks: listLogTicks(low, high, most), isLog };
  }
  if (zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const space = (high - low) * pad;
  if (low !== 0 || !zero) low -= space;
  high += space;
  const at = (value) => from + ((value - low) / (high - low)) * (to - from);
  const rough = (high - low) / most;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step); tick * step <= high; tick++) ticks.push(tick * step);
  return { at, ticks, isLog };
}

function listLogTicks(low, high, most) {
  for (const factors of [[1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9], [1, 1.2, 1.5, 2, 3, 4, 5, 7], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      ticks.push(...factors.map((factor) => factor * 10 ** power).filter((tick) => tick >= low && tick <= high));
    }
    if (ticks.length <= most + 2 || factors.length === 1) return ticks.filter((_, number) => number % Math.ceil(ticks.length / (most + 2)) === 0);
  }
  return [];
}

// The ends of the markers of contenders: shapes as well as colours tell them apart.
const SHAPES = ["m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "m-3.6-3.6h7.2v7.2h-7.2z", "m0-5l4.6 8h-9.2z", "m0-5l5 5l-5 5l-5-5z", "m0 5l4.6-8h-9.2z", "m-1.6-5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z", "m-5-2h10v4h-10z", "m-2-5h4v10h-4z"];
const CROSS = "m-4-4l8 8m0-8l-8 8";
const CIRCLE = SHAPES[0];

// A chart of points `{x, y, low, high, kind, lines}` in series `{look, shape, points, isLine}`. `x` is a number, or the
// place of a name in `names`. Points of the kind "failed" have no y and lie below the axis.
function drawPlot(width, { label, xLabel, yLabel, series, names, xTicks, xLog, yLog, yZero, diagonal }) {
  const points = series.flatMap((one) => one.points);
  const hasFailed = points.some((point) => point.kind === "failed");
  const height = Math.round(Math.min(300, Math.max(210, width * 0.52)));
  const [left, right, top, bottom] = [52, 10, 22, hasFailed ? 58 : 40];
  const { picture, marks } = makeChart(width, height, label);
  const drawn = points.filter((point) => point.kind !== "failed");
  // On both axes alike where they are compared.
  const both = diagonal ? drawn.flatMap((point) => [point.x, point.y]) : [];
  const y = makeScale([...both, ...drawn.flatMap((point) => [point.y, point.low, point.high])], height - bottom, top, { log: yLog, zero: yZero, most: 5 });
  const shortNames = names && shortenAll(names, 16);
  const x = names
    ? { at: (place) => left + ((place + 0.5) * (width - left - right)) / names.length, ticks: names.map((_, place) => place) }
    : makeScale([...both, ...points.map((point) => point.x)], left + 6, width - right - 6, { log: xLog, zero: false, most: width / 80, pad: 0.02 });
  for (const tick of y.ticks) {
    picture.append(svg("path", { class: "grid", d: `M${left} ${y.at(tick)}H${width - right}` }), svg("text", { class: "end", x: left - 6, y: y.at(tick) + 4 }, brief(tick)));
  }
  picture.append(svg("path", { class: "axis", d: `M${left} ${height - bottom}H${width - right}` }));
  let end = -Infinity;
  for (const tick of xTicks ?? x.ticks) {
    const text = names ? shortNames[tick] : brief(tick);
    const half = text.length * 3.4;
    const place = Math.min(Math.max(x.at(tick), half), width - half);
    if (place - half < end + 6) continue;
    end = place + half;
    picture.append(svg("text", { class: "middle", x: place, y: height - bottom + 16 }, text));
  }
  picture.append(svg("text", { x: 0, y: 11, class: "strong" }, yLabel + (y.isLog ? " (log)" : "")),
    svg("text", { class: "end strong", x: width - right, y: height - 4 }, xLabel + (x.isLog ? " (log)" : "")));
  if (hasFailed) picture.append(svg("text", { class: "end", x: left - 6, y: height - bottom + 33 }, "failed"));
  if (both.length) {
    const [low, high] = [both.reduce((a, b) => Math.min(a, b)), both.reduce((a, b) => Math.max(a, b))];
    picture.append(svg("path", { class: "unit", d: `M${x.at(low)} ${y.at(low)}L${x.at(high)} ${y.at(high)}` }));
  }
  const isCrowded = points.length > 600;
  for (const one of series) {
    const paths = { line: "", interval: "", dots: "", hollow: "", cross: "" };
    for (const point of one.points) {
      const [px, py] = [x.at(point.x) + (one.shift ?? 0), point.kind === "failed" ? height - bottom + 29 : y.at(point.y)].map((at) => Math.round(at * 10) / 10);
      if (point.kind !== "failed" && one.isLine) paths.line += `${paths.line ? "L" : "M"}${px} ${py}`;
      if (isNumber(point.low)) paths.interval += `M${px} ${y.at(point.low).toFixed(1)}V${y.at(point.high).toFixed(1)}`;
      if (point.kind === "failed") paths.cross += `M${px} ${py}${CROSS}`;
      else paths[point.kind === "disturbed" ? "hollow" : "dots"] += `M${px} ${py}${one.shape}`;
      marks.push({ x: px, y: py, lines: point.lines });
    }
    for (const [name, d] of Object.entries(paths)) {
      if (d) picture.append(svg("path", { class: `${name} ${one.look} ${name === "dots" ? "fill" : "draw"}${isCrowded ? " crowded" : ""}`, d }));
    }
  }
  return picture;
}

// ---- Figures -----------------------------------------------------------------------------------------------------------

const host = document.getElementById("figures");

// A section whose content `draw(rows, width)` returns for the rows that pass the filters.
function addFigure({ id, title, nav = title, hint, keys, controls = [], draw, commands = true }) {
  const body = html("div", { class: "figure-body" });
  const behind = html("ul");
  const details = html("details", { ontoggle: () => listCommands() }, html("summary", {}, "Commands behind this figure"), behind);
  let shown = [];
  const listCommands = () => behind.replaceChildren(...(details.open ? [...new Set(shown.map((row) => row.command))].map((command) => html("li", {}, html("code", {}, command))) : []));
  const legend = html("ul", { class: "keys contenders", "aria-label": "Contenders" });
  const section = html("section", { id, "aria-labelledby": `${id}-title`, "data-nav": nav },
    html("h2", { id: `${id}-title` }, title),
    html("div", { class: "figure" }, hint ? html("p", { class: "hint" }, hint) : null, controls.length ? html("div", { class: "controls" }, controls) : null, keys ?? null, legend, body, commands ? details : null));
  host.append(section);
  const figure = {
    draw(rows) {
      const width = Math.max(280, Math.floor(body.clientWidth || 320));
      const drawn = draw(rows, width);
      shown = drawn.rows ?? rows;
      listCommands();
      const drawnContenders = new Set(commands ? shown.map((row) => row.contender) : []);
      legend.replaceChildren(...(drawnContenders.size > 1 ? [...drawnContenders].map((contender) => html("li", {}, marker(contender), contender)) : []));
      const content = drawn.content.length ? drawn.content : [html("p", { class: "empty" }, "Nothing to show with these filters.")];
      // What stays in its place keeps the focus.
      if (content.some((element, number) => element !== body.children[number])) body.replaceChildren(...content);
    },
    redraw: () => figure.draw(data.rows.filter(isShown)),
  };
  figures.push(figure);
  return figure;
}

function addChoice(controls, label, options, start, change) {
  controls.push(makeChoice(label, options, start, change));
}

function makePanels(columns, content) {
  const panels = html("div", { class: "panels" }, content);
  panels.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  return panels;
}

// A button that lifts a limit on what is drawn.
function makeMore(text, lift) {
  const use = (event) => {
    const figure = event.target.closest(".figure");
    lift();
    figure.querySelector("svg.chart, [role=region]").focus();
  };
  return html("p", {}, html("button", { type: "button", onclick: use }, text));
}

const keyOf = (text, ...parts) => html("li", {}, svg("svg", { class: "swatch", viewBox: "-7 -7 14 14", "aria-hidden": "true" }, parts), text);

function addTable() {
  const hasRatios = data.reference !== null;
  const units = [...new Set(data.rows.map(unitOf))];
  const columns = [
    ...data.parameters.map((name) => ({ name, of: (row) => row.parameters[name] ?? "" })),
    { name: "contender", of: (row) => row.contender, cell: (row) => html("th", { scope: "row" }, marker(row.contender), " ", row.contender) },
    { name: units.length === 1 ? `median, ${units[0]}` : "median", number: true, of: (row) => row.value?.median, cell: (row) => makeMedian(row.value, units.length > 1 && row.value ? ` ${unitOf(row)}` : "") },
    { name: "rounds", number: true, of: (row) => row.value?.n ?? 0 },
    ...(hasRatios ? [
      { name: "ratio", number: true, of: (row) => row.ratio?.median, cell: (row) => (row.contender === data.reference ? html("td", { class: "number" }, "1", html("span", { class: "span" })) : makeMedian(row.ratio)) },
      { name: "verdict", of: (row) => row.standing ?? "", cell: (row) => html("td", {}, row.standing ? html("span", { class: `outcome ${row.standing}` }, row.standing) : "") },
    ] : []),
    { name: "end", of: (row) => row.end_text, cell: (row) => html("td", { class: "soft" }, row.end_text) },
    { name: "notes", of: notesOf, cell: (row) => html("td", { class: "soft" }, notesOf(row)) },
    { name: "command", of: (row) => row.command, cell: (row) => html("td", {}, html("details", {}, html("summary", {}, "show"), html("code", {}, row.command))) },
  ];
  const order = { column: null, sign: 1 };
  let limit = innerWidth > 640 ? 50 : 12;
  const body = html("tbody");
  const heads = columns.map((column) => html("th", { scope: "col", class: column.number ? "number" : null }, html("button", {
    type: "button", onclick: () => {
      order.sign = order.column === column ? -order.sign : 1;
      order.column = column;
      heads.forEach((head) => head.removeAttribute("aria-sort"));
      heads[columns.indexOf(column)].setAttribute("aria-sort", order.sign > 0 ? "ascending" : "descending");
      table.redraw();
    },
  }, column.name)));
  const more = html("div");
  const content = [html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Results" },
    html("table", { id: "table", class: "cards" }, html("thead", {}, html("tr", {}, heads)), body)), more];
  const compare = (a, b) => {
    const [left, right] = [a, b].map(order.column.of);
    const isMissing = [left, right].map((value) => value === undefined || value === null || value === "");
    if (isMissing[0] || isMissing[1]) return isMissing[0] - isMissing[1];
    return order.sign * (isNumber(left) && isNumber(right) ? left - right : String(left).localeCompare(String(right), "en", { numeric: true }));
  };
  const table = addFigure({
    id: "results", title: "Results", commands: false, hint: "Medians over rounds, with their intervals. A heading sorts by its column.",
    draw(rows) {
      const sorted = order.column ? [...rows].sort(compare) : rows;
      const most = isPrinting ? Infinity : limit;
      body.replaceChildren(...sorted.slice(0, most).map((row) => html("tr", { "data-point": row.point }, columns.map((column) => fill(column.cell?.(row) ?? makeCell(column, String(column.of(row))), { "data-name": column.name }, [])))));
      more.replaceChildren(...(sorted.length > most ? [makeMore(`Show all ${sorted.length} rows`, () => { limit = Infinity; table.redraw(); })] : []));
      return { content: rows.length ? content : [] };
    },
  });
}
const makeCell = (column, text) => html("td", { class: column.number ? "number" : text.length > 16 ? "long" : null }, text);
// A median with its interval, each in a column of its own.
function makeMedian(value, unit = "") {
  const interval = !value ? "" : isNumber(value.low) ? `${show(value.low)} to ${show(value.high)}` : "no interval";
  return html("td", { class: "number" }, show(value?.median), unit, html("span", { class: "span" }, interval));
}
const unitOf = (row) => (row.better === "less" && /^\w+_s$/.test(row.value_of) ? "s" : row.value_of);
const notesOf = (row) => [
  Object.keys(row.tuned ?? {}).length ? `tuned: ${describe(row.tuned, Object.keys(row.tuned))}` : "",
  row.disturbed ? `${row.disturbed} disturbed` : "",
  row.failed ? `${row.failed} failed` : "",
].filter(Boolean).join("; ");

function addRatios() {
  if (!data.rows.some((row) => row.ratio)) return;
  let limit = 25;
  let order = "file";
  const controls = [];
  addChoice(controls, "Order", [["file", "of the file"], ["ratio", "by ratio"]], order, (value) => { order = value; figure.redraw(); });
  const isLessBetter = data.rows.find((row) => row.ratio).better === "less";
  const figure = addFigure({
    id: "ratios", title: "Ratios", controls, hint: `Each contender's value over that of ${data.reference}, within a round. A bar that crosses the line at 1 shows no clear difference.`,
    draw(all, width) {
      const rows = all.filter((row) => row.ratio);
      let points = [...new Set(rows.map((row) => row.point))];
      const byPoint = new Map(points.map((point) => [point, []]));
      rows.forEach((row) => byPoint.get(row.point).push(row));
      if (order === "ratio") points.sort((a, b) => byPoint.get(a)[0].ratio.median - byPoint.get(b)[0].ratio.median);
      const hidden = isPrinting ? 0 : Math.max(0, points.length - limit);
      points = points.slice(0, points.length - hidden);
      const isNarrow = width < 560;
      const [lane, gap, head] = [15, isNarrow ? 26 : 9, 40];
      const left = isNarrow ? 4 : Math.min(300, 20 + 7 * Math.max(...points.map((point) => describe(byPoint.get(point)[0].parameters).length), 6));
      const lanes = points.reduce((sum, point) => sum + byPoint.get(point).length, 0);
      const height = head + lanes * lane + points.length * gap + 12;
      const { picture, marks } = makeChart(width, height, `Ratios to ${data.reference} at ${points.length} points.`);
      const x = makeScale([1, ...points.flatMap((point) => byPoint.get(point).flatMap((row) => [row.ratio.median, row.ratio.low, row.ratio.high]))], left + 8, width - 12, { log: true, most: width / 90 });
      for (const tick of x.ticks) picture.append(svg("path", { class: "grid", d: `M${x.at(tick)} ${head - 6}V${height - 10}` }), svg("text", { class: "middle", x: x.at(tick), y: head - 11 }, brief(tick)));
      picture.append(svg("path", { class: "unit", d: `M${x.at(1)} ${head - 6}V${height - 10}` }));
      const middle = Math.min(Math.max(x.at(1), 62), width - 62);
      picture.append(svg("text", { class: "end strong", x: middle - 8, y: 12 }, isLessBetter ? "← better" : "← worse"), svg("text", { class: "strong", x: middle + 8, y: 12 }, isLessBetter ? "worse →" : "better →"));
      const names = points.map((point) => describe(byPoint.get(point)[0].parameters));
      const shortNames = shortenAll(names, isNarrow ? Math.floor(width / 7) : 40);
      let y = head;
      for (const [place, point] of points.entries()) {
        const lanesHere = byPoint.get(point);
        picture.append(svg("path", { class: "grid", d: `M0 ${y}H${width}` }), isNarrow
          ? svg("text", { x: left, y: y + 15 }, shortNames[place])
          : svg("text", { class: "end", x: left - 6, y: y + gap / 2 + (lanesHere.length * lane) / 2 + 4 }, shortNames[place]));
        y += isNarrow ? gap - 5 : gap / 2;
        for (const row of lanesHere) {
          const [px, py] = [x.at(row.ratio.median), y + lane / 2];
          if (isNumber(row.ratio.low)) picture.append(svg("path", { class: `interval draw ${lookOf(row.contender)}`, d: `M${x.at(row.ratio.low)} ${py}H${x.at(row.ratio.high)}` }));
          picture.append(svg("path", { class: `dots fill ${lookOf(row.contender)}`, d: `M${px} ${py}${shapeOf(row.contender)}` }));
          marks.push({ x: px, y: py, lines: () => [`${row.contender}: ${showInterval(row.ratio)} times ${data.reference}`, names[place], `${row.standing}, ${row.ratio.n} rounds`] });
          y += lane;
        }
        y += isNarrow ? 5 : gap / 2;
      }
      const content = points.length ? [picture] : [];
      if (hidden) content.push(makeMore(`Show all ${points.length + hidden} points`, () => { limit = Infinity; figure.redraw(); }));
      return { rows, content };
    },
  });
}

// The quantity that a row is drawn by: the compared value, or one of the results.
function listQuantities() {
  const results = [...new Set(data.rows.flatMap((row) => Object.keys(row.results)))];
  const values = [...new Set(data.rows.map((row) => row.value_of))];
  return [["", values.length === 1 ? values[0] : "the compared value"], ...results.filter((name) => name !== values[0] || values.length > 1).map((name) => [name, name])];
}

function addValues() {
  if (!swept.length || !data.rows.some((row) => row.value)) return;
  const isNumeric = (name) => valuesOf[name].filter((value) => value !== undefined).every(isNumber);
  let along = query.get("along") ?? [...swept].sort((a, b) => isNumeric(b) * valuesOf[b].length - isNumeric(a) * valuesOf[a].length)[0];
  if (!swept.includes(along)) along = swept[0];
  let quantity = query.get("value") ?? "";
  const quantities = listQuantities();
  if (!quantities.some(([key]) => key === quantity)) quantity = "";
  let limit = 6;
  const controls = [];
  addChoice(controls, "Value", quantities, quantity, (value) => { quantity = value; figure.redraw(); });
  if (swept.length > 1) addChoice(controls, "Over", swept.map((name) => [name, name]), along, (value) => { along = value; figure.redraw(); });
  const figure = addFigure({
    id: "values", title: "Values", controls, hint: "Medians with their intervals. Each panel has one combination of the other parameters.",
    draw(all, width) {
      const rows = all.filter((row) => (quantity ? row.results[quantity] : row.value) && row.parameters[along] !== undefined);
      const others = swept.filter((name) => name !== along);
      const panels = new Map();
      rows.forEach((row) => {
        const key = others.length ? describe(row.parameters, others) : "";
        panels.set(key, [...(panels.get(key) ?? []), row]);
      });
      const most = isPrinting ? Infinity : limit;
      const isSingle = panels.size < 2;
      const columns = isSingle ? 1 : Math.min(panels.size, Math.max(1, Math.floor(width / 330)));
      const panelWidth = Math.floor((width - 20 * (columns - 1)) / columns);
      const names = isNumeric(along) ? null : valuesOf[along].map(String);
      const content = [...panels].slice(0, most).map(([title, here]) => {
        const drawn = contenders.filter((contender) => here.some((row) => row.contender === contender));
        const series = drawn.map((contender, number) => ({
          look: lookOf(contender), shape: shapeOf(contender), isLine: names === null, shift: (number - (drawn.length - 1) / 2) * (names ? 12 : 3),
          points: here.filter((row) => row.contender === contender).sort((a, b) => (names ? 0 : a.parameters[along] - b.parameters[along])).map((row) => {
            const value = quantity ? row.results[quantity] : row.value;
            return {
              x: names ? names.indexOf(String(row.parameters[along])) : row.parameters[along], y: value.median, low: value.low, high: value.high,
              lines: () => [`${contender}: ${showInterval(value)} ${quantity || row.value_of}`, describe(row.parameters), `${value.n} values, ${row.end_text}`],
            };
          }),
        }));
        const places = [...new Set(here.map((row) => row.parameters[along]))].sort((a, b) => a - b);
        const isWide = names === null && places.every((place) => place > 0) && places.at(-1) / places[0] >= 8;
        const better = new Set(here.map((row) => row.better));
        const yLabel = quantity || `${quantities[0][1]}${better.size === 1 ? `, ${[...better][0]} is better` : ""}`;
        return html("div", {}, title ? html("h4", {}, title) : null,
          drawPlot(panelWidth, { label: `${quantity || "Value"} over ${along} ${title}.`, xLabel: along, yLabel, series, names, xTicks: names || places.length > 10 ? null : places, xLog: isWide }));
      });
      const shown = content.length ? [makePanels(columns, content)] : [];
      if (panels.size > most) shown.push(makeMore(`Show all ${panels.size} panels`, () => { limit = Infinity; figure.redraw(); }));
      return { rows, content: shown };
    },
  });
}

// States of a repetition, in the order of their numbers in the data.
const STATES = ["counted", "counted, disturbed", "disturbed, repeated", "failed", "timed out"];

function addProgress() {
  const all = data.repetitions.map(([row, round, start_s, took_s, value, state, note]) => ({ row: data.rows[row], number: row, round, start_s, took_s, value, state, note }));
  if (!all.length) return;
  const points = [...new Map(data.rows.map((row) => [row.point, describe(row.parameters)]))];
  let point = query.get("point") ?? "";
  let over = query.get("over") ?? (points.length > 1 ? "time" : "round");
  if (points.length === 1) point = points[0][0];
  const controls = [];
  if (points.length > 1) addChoice(controls, "Point", [["", "all, over their medians"], ...points], point, (value) => { point = value; figure.redraw(); });
  addChoice(controls, "Over", [["round", "rounds"], ["time", "time"]], over, (value) => { over = value; figure.redraw(); });
  const last_s = Math.max(...all.map((one) => one.start_s));
  const [unit, unit_s] = last_s > 7200 ? ["hours", 3600] : last_s > 180 ? ["minutes", 60] : ["seconds", 1];
  const keys = html("ul", { class: "keys", "aria-label": "Marks" }, keyOf("counted", svg("path", { class: "dots fill k5", d: `M0 0${CIRCLE}` })), keyOf("disturbed", svg("path", { class: "hollow draw k5", d: `M0 0${CIRCLE}` })), keyOf("failed or timed out", svg("path", { class: "cross draw k5", d: `M0 0${CROSS}` })));
  const figure = addFigure({
    id: "progress", title: "Progress", controls, keys, hint: "Every repetition. Values that drift tell of a machine that changes; ratios within a round do not see it.",
    draw(rows, width) {
      const shown = new Set(rows);
      const isOne = point !== "";
      const here = all.filter((one) => shown.has(one.row) && (over === "time" || one.round !== null) && (!isOne || one.row.point === point));
      const drawn = contenders.filter((contender) => here.some((one) => one.row.contender === contender));
      const series = drawn.map((contender, number) => ({
        look: lookOf(contender), shape: shapeOf(contender), isLine: isOne && over === "time", shift: over === "round" && isOne ? (number - (drawn.length - 1) / 2) * 8 : 0,
        points: here.filter((one) => one.row.contender === contender && (one.state >= 3 || (isNumber(one.value) && (isOne || one.row.value)))).map((one) => ({
          // The points of a round lie side by side.
          x: over === "time" ? one.start_s / unit_s : one.round + 1 + (isOne ? 0 : 0.7 * (one.number / data.rows.length - 0.5)),
          y: isOne ? one.value : one.value / one.row.value?.median,
          kind: one.state >= 3 ? "failed" : one.state > 0 ? "disturbed" : "",
          lines: () => [`${contender}: ${one.state >= 3 ? STATES[one.state] : `${show(one.value)} ${one.row.value_of}`}`, describe(one.row.parameters), one.round === null ? "a trial of tuning" : `round ${one.round + 1}, ${STATES[one.state]}`, `started ${showTime(data.origin_s + one.start_s)}, took ${show(one.took_s)} s`, one.note],
        })),
      }));
      const values = [...new Set(here.map((one) => one.row.value_of))];
      const rounds = Math.max(1, ...here.map((one) => (one.round ?? 0) + 1));
      const content = here.length ? [drawPlot(width, {
        label: "Repetitions by " + over + ".", series, xLabel: over === "round" ? "round" : `${unit} since the start`, xLog: false, yZero: isOne,
        yLabel: isOne ? (values.length === 1 ? values[0] : "value") : "value over the median of its point", xTicks: over === "round" && rounds <= 30 ? Array.from({ length: rounds }, (_, round) => round + 1) : null,
      })] : [];
      return { rows: rows.filter((row) => !isOne || row.point === point), content };
    },
  });
}

// ---- Runs of isochron ----------------------------------------------------------------------------------------------------

function addPredictions() {
  if (!data.runs.predictions.length) return;
  addFigure({
    id: "predictions", title: "Predicted and measured", nav: "Predictions", hint: "Seconds of each multiplication, by the plan before it and by the clock. On the dashed line the prediction was right.",
    draw(rows, width) {
      const shown = new Set(rows);
      const here = data.runs.predictions.map(({ row, round, predicted_s, measured_s }) => ({ row: data.rows[row], round, predicted: predicted_s, measured: measured_s })).filter((one) => shown.has(one.row));
      const drawn = contenders.filter((contender) => here.some((one) => one.row.contender === contender));
      const seconds = here.flatMap((one) => [one.predicted, one.measured]);
      const isWide = seconds.reduce((a, b) => Math.max(a, b), 0) / seconds.reduce((a, b) => Math.min(a, b), Infinity) > 10;
      const series = drawn.map((contender) => ({
        look: lookOf(contender), shape: shapeOf(contender),
        points: here.filter((one) => one.row.contender === contender).map((one) => ({
          x: one.predicted, y: one.measured,
          lines: () => [`${contender}: ${show(one.measured)} s, predicted ${show(one.predicted)} s`, describe(one.row.parameters), `round ${one.round + 1}, ${show(one.measured / one.predicted)} times the prediction`],
        })),
      }));
      const content = here.length ? [drawPlot(Math.min(width, 760), { label: "Measured over predicted seconds.", series, xLabel: "predicted, s", yLabel: "measured, s", xLog: isWide, yLog: isWide, diagonal: true })] : [];
      return { rows: [...new Set(here.map((one) => one.row))], content };
    },
  });
}

// The contenders and, for one of them, the rows that have runs.
function makeRunChoice(controls, change) {
  const having = contenders.filter((contender) => data.runs.runs.some((run) => data.rows[run.row].contender === contender));
  if (having.length > 1) addChoice(controls, "Contender", having.map((name) => [name, name]), having[0], change);
  return having[0];
}

function addSpeeds() {
  if (!data.runs.speeds.length) return;
  const controls = [];
  let chosen = makeRunChoice(controls, (value) => { chosen = value; figure.redraw(); });
  const speeds = data.runs.speeds.map(({ row, device, elements, gflops }) => ({ row: data.rows[row], device: data.runs.devices[device], elements, ...gflops }));
  const figure = addFigure({
    id: "speeds", title: "Speeds of devices", nav: "Speeds", controls, hint: "Gflop/s of each device while it was busy, over its own work: its speed function as the runs show it.",
    draw(rows, width) {
      const shown = new Set(rows);
      const here = speeds.filter((one) => shown.has(one.row) && one.row.contender === chosen);
      const kinds = [...new Set(here.map((one) => one.device.class))];
      const byDevice = new Map();
      here.forEach((one) => byDevice.set(one.device, [...(byDevice.get(one.device) ?? []), one]));
      const series = [...byDevice].map(([device, ones]) => ({
        look: lookAt(kinds.indexOf(device.class)), shape: shapeAt(kinds.indexOf(device.class)), isLine: true,
        points: ones.sort((a, b) => a.elements - b.elements).map((one) => ({
          x: one.elements, y: one.median, low: one.low, high: one.high,
          lines: () => [`${device.name}: ${showInterval(one)} Gflop/s`, device.class, `${describe(one.row.parameters)}, ${show(one.elements)} elements of C, ${one.n} runs`],
        })),
      }));
      const keys = html("ul", { class: "keys", "aria-label": "Kinds of devices" }, kinds.map((kind, number) => keyOf(kind, svg("path", { class: `dots fill ${lookAt(number)}`, d: `M0 0${shapeAt(number)}` }))));
      const content = here.length ? [keys, drawPlot(width, { label: "Speeds of devices over their work.", series, xLabel: "elements of C", yLabel: "Gflop/s" })] : [];
      return { rows: [...new Set(here.map((one) => one.row))], content };
    },
  });
}

function addHeat() {
  if (data.runs.devices.length < 2) return;
  const controls = [];
  let chosen = makeRunChoice(controls, (value) => { chosen = value; figure.redraw(); });
  let colour = "alike";
  addChoice(controls, "Colour", [["alike", "against devices alike"], ["speed", "speed"]], colour, (value) => { colour = value; figure.redraw(); });
  const medianOf = (values) => { const sorted = [...values].sort((a, b) => a - b); return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2; };
  const figure = addFigure({
    id: "heat", title: "Devices", controls, hint: "Gflop/s of each device at each point. Against devices alike: over the median of its kind there, orange where it is slower and blue where it is faster.",
    draw(rows, width) {
      const here = data.runs.speeds.map(({ row, device, gflops }) => ({ row: data.rows[row], device, ...gflops })).filter((one) => one.row.contender === chosen && rows.includes(one.row));
      const devices = data.runs.devices.map((_, number) => number).filter((number) => here.some((one) => one.device === number));
      const columns = rows.filter((row) => here.some((one) => one.row === row));
      if (!columns.length) return { rows: [], content: [] };
      const left = Math.min(Math.floor(width * 0.36), 230);
      const [cell, head] = [devices.length > 40 ? 14 : 24, 16 * swept.length + 10];
      const wide = Math.min(110, (width - left - 4) / columns.length);
      const { picture, marks } = makeChart(width, head + devices.length * cell + 8, "Speeds of devices at the points.");
      const fastest = Math.max(...here.map((one) => one.median));
      swept.forEach((name, line) => {
        const y = 16 * line + 14;
        let end = left;
        picture.append(svg("text", { class: "end strong", x: left - 8, y }, shorten(name, Math.floor(left / 6.8))));
        columns.forEach((row, number) => {
          const text = shorten(String(row.parameters[name] ?? ""), 10);
          const x = left + (number + 0.5) * wide;
          if (x - text.length * 3.4 < end) return;
          end = x + text.length * 3.4 + 4;
          picture.append(svg("text", { class: "middle", x, y }, text));
        });
      });
      shortenAll(devices.map((device) => data.runs.devices[device].name), Math.floor(left / 6.8)).forEach((name, line) => picture.append(svg("text", { class: "end", x: left - 8, y: head + (line + 0.5) * cell + 4 }, name)));
      const alike = new Map();
      const keyFor = (one) => `${columns.indexOf(one.row)} ${data.runs.devices[one.device].class}`;
      here.forEach((one) => alike.set(keyFor(one), [...(alike.get(keyFor(one)) ?? []), one.median]));
      for (const one of here) {
        const [x, y] = [left + columns.indexOf(one.row) * wide, head + devices.indexOf(one.device) * cell];
        const peers = alike.get(keyFor(one));
        const ratio = one.median / medianOf(peers);
        const box = svg("rect", { class: "cell", x, y, width: wide, height: cell });
        const part = colour === "speed" ? (70 * one.median) / fastest : Math.min(70, 280 * Math.abs(ratio - 1));
        box.style.fill = `color-mix(in oklab, var(--${colour !== "speed" && ratio < 1 ? "warm" : "cold"}) ${part.toFixed(0)}%, var(--grid))`;
        picture.append(box);
        if (wide >= 46 && cell > 16) picture.append(svg("text", { class: "middle cell-text", x: x + wide / 2, y: y + cell / 2 + 4 }, colour === "speed" || peers.length < 2 ? show(one.median) : `${show(one.median)} ${ratio < 1 ? "−" : "+"}${Math.abs(100 * (ratio - 1)).toFixed(0)}%`));
        marks.push({ x, y, w: wide, h: cell, lines: () => [`${data.runs.devices[one.device].name}: ${showInterval(one)} Gflop/s`, data.runs.devices[one.device].class, describe(one.row.parameters), peers.length < 2 ? "no other device of its kind" : `${show(ratio)} times the median of ${peers.length} alike`] });
      }
      return { rows: columns, content: [picture] };
    },
  });
}

// Rectangles of C, and where the time of each device went.
function addRun() {
  if (!data.runs.runs.length) return;
  const controls = [];
  let chosen = String(data.runs.runs.length - 1);
  addChoice(controls, "Run", data.runs.runs.map((run, number) => [String(number), `${data.rows[run.row].contender}, ${describe(data.rows[run.row].parameters)}`]), chosen, (value) => { chosen = value; figure.redraw(); });
  const figure = addFigure({
    id: "run", title: "Layout and time of a run", nav: "Run", controls, hint: "The run of the middle value at each point: which part of C each node had, and how long each device was busy. The dashed line is the time of a perfect split.",
    draw(rows, width) {
      const run = data.runs.runs[Number(chosen)];
      const row = data.rows[run.row];
      const half = width < 760 ? width : Math.floor((width - 20) / 2);
      const facts = [`round ${run.round + 1}`, `${run.m} × ${run.n} × ${run.k}`, `${show(run.gflops)} Gflop/s`, `${show(run.wall_s)} s`, `${show(run.ideal_s)} s if split perfectly`].filter((text) => !text.includes("undefined") && !text.startsWith("–"));
      const content = [html("p", { class: "hint" }, facts.join(" · ")), makePanels(half < width ? 2 : 1, [
        html("div", {}, html("h4", {}, "Layout of C"), drawLayout(run, half)),
        html("div", {}, html("h4", {}, "Time of the multiplication"), drawTimes(run, half), run.account ? html("h4", {}, "Time of the first process") : null, run.account ? drawAccount(run.account, half) : null)])];
      return { rows: [row], content };
    },
  });
}

function drawLayout(run, width) {
  const [rows, columns] = [Math.max(...run.nodes.map((node) => node.row + node.rows)), Math.max(...run.nodes.map((node) => node.col + node.cols))];
  const scale = Math.min((width - 4) / columns, 340 / rows);
  const { picture, marks } = makeChart(width, Math.ceil(rows * scale) + 4, "Layout of C.");
  const hosts = [...new Set(run.nodes.map((node) => node.host))];
  for (const node of run.nodes.filter((one) => one.rows * one.cols > 0)) {
    const [x, y, w, h] = [2 + node.col * scale, 2 + node.row * scale, node.cols * scale, node.rows * scale];
    const look = lookAt(hosts.length > 1 ? hosts.indexOf(node.host) : node.rank);
    picture.append(svg("rect", { class: `zone fill draw ${look}`, x, y, width: w, height: h }));
    if (w > 44 && h > 18) picture.append(svg("text", { class: "middle strong", x: x + w / 2, y: y + h / 2 + 4 }, shorten(hosts.length > 1 ? `${node.rank} ${node.host}` : `rank ${node.rank}`, Math.floor(w / 7))));
    marks.push({ x, y, w, h, lines: () => [`rank ${node.rank} on ${node.host}`, `rows ${node.row} to ${node.row + node.rows}, columns ${node.col} to ${node.col + node.cols}`, `${((100 * node.rows * node.cols) / (rows * columns)).toFixed(1)} % of C`, `busy ${show(node.busy_s)} of ${show(run.wall_s)} s`] });
  }
  return picture;
}

function drawTimes(run, width) {
  const devices = run.nodes.flatMap((node) => node.devices.map((device) => ({ node, device })));
  const [left, lane] = [Math.min(150, Math.floor(width * 0.32)), devices.length > 24 ? 12 : 20];
  const { picture, marks } = makeChart(width, devices.length * lane + 26, "Time of each device.");
  const x = makeScale([run.wall_s], left, width - 12, { log: false, most: 4, pad: 0 });
  const names = shortenAll(devices.map(({ device }) => data.runs.devices[device.device].name), Math.floor(left / 7));
  devices.forEach(({ node, device }, line) => {
    const y = line * lane;
    picture.append(svg("text", { class: "end", x: left - 6, y: y + lane / 2 + 4 }, names[line]),
      svg("rect", { class: "rest", x: left, y: y + 2, width: x.at(run.wall_s) - left, height: lane - 4 }),
      svg("rect", { class: `fill k${line % 8}`, x: left, y: y + 2, width: Math.max(0, x.at(device.busy_s) - left), height: lane - 4 }));
    marks.push({ x: left, y: y + 1, w: x.at(run.wall_s) - left, h: lane - 2, lines: () => [`${data.runs.devices[device.device].name}: busy ${show(device.busy_s)} of ${show(run.wall_s)} s`, data.runs.devices[device.device].class, `its node waited ${show(node.exposed_s)} s for panels`, node.sum_s ? `and ${show(node.sum_s)} s for the sum of parts of C` : ""] });
  });
  const bottom = devices.length * lane;
  if (isNumber(run.ideal_s)) picture.append(svg("path", { class: "unit", d: `M${x.at(run.ideal_s)} 0V${bottom}` }));
  for (const tick of x.ticks) picture.append(svg("text", { class: "middle", x: Math.min(x.at(tick), width - 14), y: bottom + 16 }, `${brief(tick)}${tick ? "" : " s"}`));
  return picture;
}

// The phases of a process in their order. Each has its seconds, however often it was entered.
const PHASES = ["start", "devices", "plan", "matrices", "multiply", "check", "write", "end"];

function drawAccount(account, width) {
  const parts = PHASES.map((name) => [name, account[`${name}_s`]]).filter(([, seconds]) => isNumber(seconds) && seconds > 0);
  const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  const { picture, marks } = makeChart(width, 30, "Time of the first process.");
  let x = 0;
  parts.forEach(([phase, seconds]) => {
    const w = (seconds / total) * width;
    picture.append(svg("rect", { class: `zone fill draw k${PHASES.indexOf(phase)}`, x, y: 2, width: w, height: 24 }));
    if (w > phase.length * 7.5 + 6) picture.append(svg("text", { class: "middle strong", x: x + w / 2, y: 18 }, phase));
    marks.push({ x, y: 2, w, h: 24, lines: () => [`${phase}: ${show(seconds)} s`, `${((100 * seconds) / total).toFixed(1)} % of ${show(total)} s`] });
    x += w;
  });
  return picture;
}

// ---- The page ------------------------------------------------------------------------------------------------------------

function startThemes() {
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  let theme = themes.includes(query.get("theme")) ? query.get("theme") : "auto";
  const apply = () => {
    if (theme === "auto") root.removeAttribute("data-theme");
    else root.dataset.theme = theme;
    button.textContent = `${{ auto: "◐", light: "☀", dark: "☾" }[theme]} ${theme}`;
    button.setAttribute("aria-label", `Colours: ${theme}. Change to ${themes[(themes.indexOf(theme) + 1) % 3]}.`);
  };
  button.addEventListener("click", () => { theme = themes[(themes.indexOf(theme) + 1) % 3]; apply(); });
  button.hidden = false;
  apply();
}

function start() {
  startThemes();
  if (data.rows.length) {
    host.append(makeFilters());
    addTable();
    addRatios();
    addValues();
    addProgress();
    addPredictions();
    addSpeeds();
    addHeat();
    addRun();
    redraw();
  }
  document.querySelector("nav").append(...[...document.querySelectorAll("section[data-nav]")].map((section) => html("a", { href: `#${section.id}` }, section.dataset.nav)));
  for (const time of document.querySelectorAll("time[data-seconds]")) {
    time.textContent = showTime(Number(time.dataset.seconds));
    time.dateTime = new Date(time.dataset.seconds * 1000).toISOString();
  }
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; hideTip(); redraw(); } });
  addEventListener("beforeprint", () => { isPrinting = true; redraw(); });
  addEventListener("afterprint", () => { isPrinting = false; redraw(); });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  addEventListener("scroll", hideTip, { passive: true });
}
start();
