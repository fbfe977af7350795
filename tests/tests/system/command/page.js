// Uses the page as people do, and leaves what it finds in the page. In a block, since the page has names of its own.
{
  const found = {};
  const all = (selector) => [...document.querySelectorAll(selector)];
  const rows = () => all("#table tbody tr").map((row) => row.textContent);
  found.rows = rows().length;
  found.charts = all("svg.chart").length;
  found.sections = all("section").map((section) => section.id);
  found.nav = all("nav a").length;
  found.elements_of_data = all("main i, main b, h1 b").length;

  const heading = all("#table thead button").find((button) => button.textContent.startsWith("contender"));
  heading.focus();
  heading.click();
  found.focused = document.activeElement === heading;
  found.ascending = [heading.parentElement.ariaSort, rows()[0]];
  heading.click();
  found.descending = [heading.parentElement.ariaSort, rows()[0]];

  const chart = document.querySelector("#ratios svg.chart");
  const tip = document.querySelector("#tip");
  const press = (key) => chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  press("ArrowRight");
  found.first = [tip.hidden, tip.textContent];
  press("End");
  found.last = tip.textContent;
  press("Escape");
  found.closed = tip.hidden;

  const size = all(".filters label").find((label) => label.textContent.startsWith("size")).querySelector("select");
  size.value = "2";
  size.dispatchEvent(new Event("change"));
  found.filtered = [rows().length, document.querySelector(".filters output").textContent];
  const search = document.querySelector("input[type=search]");
  search.value = "two <i>";
  search.dispatchEvent(new Event("input"));
  found.searched = rows().length;
  search.value = "nowhere";
  search.dispatchEvent(new Event("input"));
  found.nothing = [rows().length, all("#results .empty").length];

  search.value = "";
  search.dispatchEvent(new Event("input"));
  size.value = "";
  size.dispatchEvent(new Event("change"));

  found.looks = new Set(Array.from({ length: 24 }, (_, number) => lookAt(number))).size;
  found.markers = new Set(Array.from({ length: 24 }, (_, number) => lookAt(number).slice(0, 2) + shapeAt(number))).size;
  const long = "n".repeat(40);
  found.same_names = [[`${long}1`, `${long}2`], [`1${long}`, `2${long}`], [`1${long}1`, `1${long}2`, `2${long}1`], [`${long}1${long}`, `${long}2${long}`]]
    .filter((names) => new Set(shortenAll(names, 12)).size < names.length || shortenAll(names, 12).some((name) => name.length > 12));
  // What is seen of the verdicts and of the contenders' marks without scrolling aside. No window is narrower than 500 pixels, but a page.
  found.edge = innerWidth < 640 ? 400 : innerWidth;
  root.style.width = `${found.edge}px`;
  redraw();
  const isSeen = (element) => { const box = element.getBoundingClientRect(); return box.width > 0 && box.left >= 0 && box.right <= found.edge; };
  const verdicts = all("#table .outcome");
  found.hidden = [verdicts.length > 0, verdicts.filter((verdict) => !isSeen(verdict)).length, document.body.scrollWidth > found.edge];
  const marked = (figure) => [...figure.querySelectorAll(".contenders")].some((legend) => legend.children.length > 1 && isSeen(legend));
  found.unmarked = all("#ratios, #values, #progress").filter((figure) => !marked(figure)).length;
  const filters = document.querySelector(".filters");
  found.filters = getComputedStyle(filters).position;

  const theme = document.querySelector("#theme");
  found.themes = [1, 2, 3].map(() => { theme.click(); return document.documentElement.dataset.theme ?? "auto"; });
  found.unnamed = all("button, select, input, svg[tabindex], [role=region]").filter((element) => !(element.ariaLabel || element.textContent.trim() || element.labels?.length)).length;
  found.requests = performance.getEntriesByType("resource").length;
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
}
